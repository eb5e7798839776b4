"""A segmenter at work: maps by hand, rows, tiles, problems, and what stands in a notebook."""

import csv
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from tasks.segment.painted import KINDS, STEP, Reads, a_model, maps, painted

import foveal
from foveal.errors import FovealError
from foveal.runtime.image_predictor import Problem
from foveal.tasks.segment.options import PredictOptions
from foveal.tasks.segment.predict import Segmentation, Segmenter
from foveal.tasks.segment.segmenter import segmenter_of

A = maps("110000", "110002", "000002", "000000")
B = maps("000", "020")


def one(pixels, **options):
    (found,) = a_model().predict(pixels, **options)
    return found


def test_by_hand():
    found = one(painted(A))
    assert isinstance(found, foveal.Segmentation)
    assert (found.file, found.error) == ("image 0", "")
    np.testing.assert_array_equal(found.label_map, A)
    assert found.label_map.dtype == np.uint8
    assert [(piece.kind, piece.area, piece.box) for piece in found.findings] == [
        ("crack", 4, (0, 0, 2, 2)),
        ("hole", 2, (5, 1, 1, 2)),
    ]
    assert found.shares == {"crack": 4 / 24, "hole": 2 / 24}
    assert found.summary() == "crack 16.67% (0.44), hole 8.33% (0.22)"
    assert repr(found) == f"Segmentation('image 0', 6×4: {found.summary()})"
    # 200/20 per step of 1: e^−10 is nothing, so that a 3 × 3 mean counts pixels; at the corner 4 of 9
    np.testing.assert_allclose(found.scores, [4 / 9, 4 / 9, 2 / 9], atol=2e-4)


def test_where_nothing_is_found():
    found = one(painted(np.zeros((5, 7))))
    assert (found.findings, found.shares, found.summary()) == ((), {}, "nothing")


def test_every_image_keeps_its_size():
    sizes = [(4, 6), (2, 3), (1, 1), (31, 2), (4, 6)]
    label_maps = [np.random.default_rng(place).integers(0, 3, size) for place, size in enumerate(sizes)]
    for batch in (1, 2, 9):
        answers = list(a_model().predict([painted(one) for one in label_maps], batch=batch))
        for answer, label_map in zip(answers, label_maps, strict=True):
            np.testing.assert_array_equal(answer.label_map, label_map)


def test_images_of_one_size_share_a_batch_and_keep_their_order():
    seen = []

    class Counts(Reads):
        def forward(self, images):
            seen.append(tuple(images.shape))
            return super().forward(images)

    model = a_model(network=Counts(3))
    images = [painted(one) for one in (A, A, B, A, A, A)]
    answers = list(model.predict(images, batch=4))
    assert [answer.label_map.shape for answer in answers] == [A.shape, A.shape, B.shape, A.shape, A.shape, A.shape]
    assert seen == [(2, 3, 4, 6), (1, 3, 2, 3), (1, 3, 4, 6), (2, 3, 4, 6)]
    seen.clear()
    list(model.predict(images))
    assert [shape[0] for shape in seen] == [1] * 6


def test_a_larger_image_is_seen_in_tiles():
    seen = []

    class Counts(Reads):
        def forward(self, images):
            seen.append(tuple(images.shape[2:]))
            return super().forward(images)

    label_map = np.random.default_rng(0).integers(0, 3, (53, 97))
    whole = one(painted(label_map), tile=0)
    (found,) = a_model(network=Counts(3)).predict(painted(label_map), tile=32, overlap=8)
    np.testing.assert_array_equal(found.label_map, label_map)
    np.testing.assert_allclose(found.scores, whole.scores, atol=1e-6)
    assert [(piece.kind, piece.box) for piece in found.findings] == [
        (piece.kind, piece.box) for piece in whole.findings
    ]
    assert len(seen) == 2 * 4
    assert max(map(max, seen)) == 32


def test_small_findings_can_be_left_out():
    found = one(painted(A), smallest=3)
    np.testing.assert_array_equal(found.label_map, np.where(A == 2, 0, A))
    assert [piece.kind for piece in found.findings] == ["crack"]


def test_what_is_bad_stays_at_its_place(tmp_path):
    (tmp_path / "1.png").write_bytes(b"")
    bad = str(tmp_path / "1.png")
    stream = [painted(A), bad, painted(A).astype(float), painted(B), np.zeros((0, 7, 3), np.uint8)]
    for batch in (1, 3):
        answers = list(a_model().predict(iter(stream), batch=batch))
        assert [type(answer) for answer in answers] == [Segmentation, Problem, Problem, Segmentation, Problem]
        assert answers[1] == Problem(bad, "is empty (0 bytes)")
        assert answers[2].error.endswith("got float64 (4, 6, 3)")


def test_an_answer_that_is_no_number_is_a_problem_of_its_image():
    class Fragile(Reads):
        def forward(self, images):
            return super().forward(images) / (images.amax((1, 2, 3)) > 0)[:, None, None, None]

    images = [painted(A), np.zeros((4, 6, 3), np.uint8), np.zeros((40, 60, 3), np.uint8), painted(A)]
    answers = list(a_model(network=Fragile(3)).predict(images, tile=32, overlap=8))
    assert [type(answer) for answer in answers] == [Segmentation, Problem, Problem, Segmentation]
    assert answers[1].error == "the model's answer is no number"


def test_nothing_is_tracked_and_dropout_is_off():
    seen = []

    class Asks(Reads):
        def forward(self, images):
            seen.append((self.training, torch.is_grad_enabled(), images.requires_grad))
            return super().forward(images)

    list(a_model(network=Asks(3).train()).predict([painted(A), painted(np.ones((40, 40)))], tile=32, overlap=8))
    assert len(seen) == 5
    assert set(seen) == {(False, False, False)}


def test_every_kind_of_input(tmp_path):
    Image.fromarray(painted(A)).save(tmp_path / "a.png")
    grey = np.full((4, 6), STEP, np.uint8)
    given = [tmp_path / "a.png", Image.fromarray(painted(A)), Image.open(tmp_path / "a.png"), grey]
    answers = list(a_model().predict(iter(given)))
    assert [answer.file for answer in answers] == [
        str(tmp_path / "a.png"), "image 1", str(tmp_path / "a.png"), "image 3",
    ]  # fmt: skip
    for answer in answers[:3]:
        np.testing.assert_array_equal(answer.label_map, A)
    np.testing.assert_array_equal(answers[3].label_map, np.ones((4, 6)))


def test_a_folder_without_images(tmp_path):
    with pytest.raises(FovealError, match="expected a folder with images"):
        a_model().predict(tmp_path)


def test_a_notebook_shows_the_overlay():
    found = one(painted(A))
    with Image.open(io.BytesIO(found._repr_png_())) as image:
        assert image.format == "PNG"
        assert image.size == found.overlay().size
        assert image.width == 480  # 80 × 6
        assert image.height > 320


# --- rows -------------------------------------------------------------------------------------------------------------


def rows(form, *results):
    head, row = segmenter_of(a_model(), PredictOptions()).rows(form, 8)
    return head + "".join(map(row, results))


def test_a_table_has_a_line_for_each_image():
    text = rows("table", one(painted(A)), one(painted(np.zeros((2, 2)))), Problem("x,y\n", "bad"))
    assert text.splitlines() == [
        "image     share of the area (score)",
        "image 0   crack 16.67% (0.44), hole 8.33% (0.22)",
        "image 0   nothing",
        "x,y\\n     error: bad",
    ]


def test_a_csv_has_a_row_for_each_finding():
    long = np.zeros((9, 40), np.uint8)
    long[4:7, 3:33] = 1
    text = rows("csv", one(painted(A)), one(painted(long)), one(painted(np.zeros((2, 2)))), Problem("x,y", "bad"))
    head = "file,class,area,share,x,y,width,height,centre_x,centre_y,length,mean_width,score,error"
    assert text.splitlines()[0] == head
    table = list(csv.DictReader(io.StringIO(text)))
    assert [row["class"] for row in table] == ["crack", "hole", "crack", "", ""]
    assert [row["error"] for row in table] == ["", "", "", "", "bad"]
    first, hole, crack, nothing, bad = ([*row.values()][1:-2] for row in table)
    assert first == ["crack", "4", "0.16666667", "0", "0", "2", "2", "1.0", "1.0", "", ""]
    assert hole[2:10] == ["0.08333333", "5", "1", "1", "2", "5.5", "2.0", ""]
    assert crack[1:] == ["90", "0.25", "3", "4", "30", "3", "18.0", "5.5", "30.0", "3.0"]
    assert nothing == bad == [""] * 11
    assert table[-1]["file"] == "x,y"
    assert 0.44 < float(table[0]["score"]) < 0.45
    assert float(table[2]["score"]) == pytest.approx(1, abs=1e-3)


def test_json_has_a_line_for_each_image():
    lines = rows("jsonl", one(painted(A)), Problem("x\udcffy", "bad")).splitlines()
    facts, problem = map(json.loads, lines)
    assert problem == {"file": "x\udcffy", "error": "bad"}
    assert (facts["file"], facts["height"], facts["width"]) == ("image 0", 4, 6)
    assert facts["shares"] == {"crack": 0.16666667, "hole": 0.08333333}
    assert list(facts["scores"]) == list(KINDS)
    assert facts["score"] == pytest.approx(4 / 9, abs=2e-4)
    assert facts["findings"][1] == {
        "class": "hole", "area": 2, "share": 0.08333333, "x": 5, "y": 1, "width": 1, "height": 2,
        "centre_x": 5.5, "centre_y": 2.0, "length": None, "mean_width": None,
    }  # fmt: skip


def test_a_format_that_is_none():
    with pytest.raises(FovealError, match="no format is called 'xml'"):
        rows("xml")


# --- what does not fit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"tile": 100, "overlap": 51}, "--overlap: expected at most half of the tile's 100 pixels, got 51"),
        ({"tile": -1}, "--tile: expected an integer, at least 0, got -1"),
        ({"batch": 0}, "--batch: expected an integer, at least 1, got 0"),
        ({"smallest": 1.5}, "--smallest"),
        ({"annotations": "voc"}, "--annotations: expected one of none, coco, labelme"),
        ({"tiles": 3}, "option of predict of a model that segments is called 'tiles'; the nearest is 'tile'"),
    ],
)
def test_options_that_are_none(options, line):
    with pytest.raises(FovealError, match=line):
        a_model().predict(painted(A), **options)


def test_tiles_smaller_than_what_the_model_takes():
    model = a_model()
    object.__setattr__(model.card, "multiple", 32)
    with pytest.raises(FovealError, match="--tile: expected at least 32 pixels, the least that the model sees, got 31"):
        model.predict(painted(A), tile=31, overlap=0)


@pytest.mark.parametrize("tile", [0, 32])
def test_a_model_of_other_classes_than_its_card(tile):
    with pytest.raises(FovealError, match="reads's answer: expected 3 classes, got 5"):
        list(a_model(network=Reads(5)).predict(painted(np.ones((40, 40))), tile=tile, overlap=0))


def test_more_classes_than_a_label_map_has_labels():
    with pytest.raises(FovealError, match="reads: expected at most 254 classes, got 255"):
        a_model(kinds=tuple(f"kind {number}" for number in range(255))).predict(painted(A))


def test_annotations_need_a_folder(tmp_path):
    segmenter = segmenter_of(a_model(), PredictOptions(annotations="coco"))
    with pytest.raises(FovealError, match=r"--annotations: expected a folder .* add --out"):
        segmenter.writer("csv", tmp_path / "a.csv", 8)


def test_whoever_works_is_a_segmenter():
    segmenter = segmenter_of(a_model(), PredictOptions())
    assert isinstance(segmenter, Segmenter)
    label_map, scores = segmenter.answer(painted(A))
    np.testing.assert_array_equal(label_map, A)
    assert scores.shape == (3,)
