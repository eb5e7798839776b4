"""`evaluate` of a segmenter, on sets in files: its own data, others, folds, what cannot be used, models beside it."""

import base64
import io
import json
import math
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from report.read_page import Page
from tasks.segment.painted import KINDS, Reads, a_model, a_set, maps

from foveal.errors import FovealError
from foveal.tasks.segment.report_tables import FOUND_FROM
from foveal.tasks.segment.scores import DECIDES

A = maps("1100", "0002", "0002"), maps("1000", "0002", "0102")
B = maps("0000", "0000", "0000"), maps("0000", "0000", "0000")
C = maps("0000", "0110", "0110"), maps("0000", "0000", "0000")
IMAGES = [C, B, A, A, B, C]
SPLITS = ["train", "val", "train", "test", "test", "test"]
BY_HAND = (1 / 7 + 1) / 2  # mIoU of A, B and C: crack 1 of 7, hole 2 of 2


@pytest.fixture
def data(tmp_path):
    return a_set(tmp_path / "set", IMAGES, split=SPLITS)


def test_the_figures_are_those_of_the_test_split(data):
    found = a_model(data).evaluate(resamples=0)
    assert found.split == "test"
    assert found.figures[DECIDES] == pytest.approx(BY_HAND)
    assert found.figures["pixel accuracy"] == pytest.approx(30 / 36)
    assert found.figures[FOUND_FROM] == pytest.approx(math.sqrt(2))
    assert found.scores.confusion == ((27, 1, 0), (5, 1, 0), (0, 0, 2))
    text = found.summary()
    assert f"| mIoU of findings, % | {100 * BY_HAND:.2f} |" in text
    assert "| side from which on most findings are found, pixels | 1.4 |" in text
    assert "| crack | 2 | 2 | 14.29 |" in text
    assert text.endswith("Intervals: no intervals were asked for.")
    assert found.facts["seed of the training"] == 3


def test_every_other_split_can_be_asked_for(data):
    assert a_model(data).evaluate(split="train", resamples=0).scores.images == 2
    assert a_model(data).evaluate(split="val", resamples=0).scores.images == 1


def test_intervals_are_over_groups(tmp_path):
    data = a_set(tmp_path / "set", IMAGES, split=SPLITS, group=["z", "w", "z", "x", "x", "y"])
    found = a_model(data).evaluate(resamples=50)
    assert "over 2 groups of images, each whole, 50 resamples" in found.summary()
    one = found.scores.figures[DECIDES]
    assert one.low < one.value < one.high
    # drawn are x with A and B, or y with C: of y alone nothing is found
    assert (one.low, one.high) == (0, pytest.approx((1 / 3 + 1) / 2))


def test_all_is_written(data, tmp_path):
    found = a_model(data).evaluate(resamples=20)
    files = found.write(tmp_path / "out")
    tables = [f"{stem}.{kind}" for stem in ("report", "figures") for kind in ("md", "csv", "tex")]
    assert [one.name for one in files] == ["report.html", *tables, "evaluation.json", "confusion.csv"]
    assert all(one.is_file() for one in files)
    assert (tmp_path / "out/confusion.csv").read_text() == (
        "true ↓ predicted →,background,crack,hole\nbackground,27,1,0\ncrack,5,1,0\nhole,0,0,2\n"
    )
    lines = [line for line in (tmp_path / "out/figures.csv").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "class,figure,value,low,high,images"
    row = next(line for line in lines if line.startswith(",mIoU of findings,")).split(",")
    assert float(row[2]) == pytest.approx(BY_HAND)
    content = json.loads((tmp_path / "out/evaluation.json").read_text())
    assert content["figures"][DECIDES]["value"] == pytest.approx(BY_HAND)
    page = Page((tmp_path / "out/report.html").read_text(encoding="utf-8"))
    assert len(page.all("img")) == 2 * 3  # image, truth and predicted of the two with a wrong pixel
    assert "missed crack (2 px)" in page.text
    assert [one["alt"] for one in page.all("img")][::3] == ["images/5.png: image", "images/3.png: image"]
    first = Image.open(io.BytesIO(base64.b64decode(page.all("img")[3]["src"].split(",")[1])))
    red = np.asarray(first)[..., 0]
    assert red[28, 28] > 30  # the first pixel of A: a crack
    assert red[28, 140] < 20
    assert "images/5.png" in page.text


def test_without_label_maps_in_test_val_is_used_and_that_is_stated(tmp_path):
    splits = ["train", "train", "val", "train", "val", "val"]
    found = a_model(a_set(tmp_path / "set", IMAGES, split=splits)).evaluate(resamples=0)
    assert found.split == "val"
    note = "no image of the split test has a label: evaluated on val, which chose the epoch, so the figures flatter"
    assert note in found.summary()


def test_a_split_without_label_maps_is_refused(tmp_path):
    unknown = [(np.full_like(truth, 255), said) if split == "test" else (truth, said)
               for (truth, said), split in zip(IMAGES, SPLITS, strict=True)]  # fmt: skip
    model = a_model(a_set(tmp_path / "set", unknown, split=SPLITS))
    with pytest.raises(FovealError, match="set, split test: expected images with label maps, got none"):
        model.evaluate(split="test", resamples=0)


def test_other_data(data, tmp_path):
    other = a_set(tmp_path / "other", [A, C, A], split=["train", "test", "val"])
    found = a_model(data).evaluate(other, resamples=0)
    assert found.scores.images == 1
    assert found.figures[DECIDES] == 0
    assert "other: index.csv" in found.summary()


def test_images_of_the_training_are_counted(data):
    text = a_model(data).evaluate(data, split="train", resamples=0).summary()
    assert "2 of 2 images were in the training split of this model, by their names: the figures flatter" in text
    assert "\n0 of 3 images were in the training split" in a_model(data).evaluate(data, resamples=0).summary()


def test_other_classes_are_refused_and_named(data, tmp_path):
    other = a_set(tmp_path / "other", [A, C, A], kinds=("crack", "root"), split=["test", "val", "train"])
    with pytest.raises(FovealError, match="other: expected the classes of reads, crack, hole, got crack, root"):
        a_model(data).evaluate(other)
    beside = a_model(kinds=("crack", "root"), name="others")
    with pytest.raises(FovealError, match="set: expected the classes of others, crack, root, got crack, hole"):
        a_model(data).evaluate(resamples=0, beside=[beside])


def test_data_that_changed_since_the_training_are_refused_and_evaluated_only_when_asked_for(data):
    model = a_model(data)
    table = data / "index.csv"
    table.write_text(table.read_text().replace(",val", ",test"))
    with pytest.raises(FovealError, match="the images, labels and splits of the training, got others"):
        model.evaluate()
    assert model.evaluate(data, resamples=0).scores.images == 4


def test_a_label_map_that_changed_since_the_training_is_refused(data):
    model = a_model(data)
    shutil.copy(data / "masks/3.png", data / "masks/5.png")
    with pytest.raises(FovealError, match="the images, labels and splits of the training, got others"):
        model.evaluate()


def test_data_that_are_gone_are_named(data):
    model = a_model(data)
    shutil.move(data, data.with_name("moved"))
    with pytest.raises(FovealError, match="these are what the model was trained with: name others with --data"):
        model.evaluate()
    with pytest.raises(FovealError, match=r"--data: expected images to evaluate the model on, got none"):
        a_model().evaluate()


def test_an_image_that_cannot_be_read_is_left_out_and_named(data):
    model, file = a_model(data), data / "images/4.png"
    file.write_bytes(file.read_bytes()[:-30])  # the head is whole, so that only who opens it sees it
    found = model.evaluate(resamples=0)
    assert found.scores.images == 2
    assert "left out: images/4.png: " in found.summary()
    assert found.figures[DECIDES] == pytest.approx(BY_HAND)
    for place in (3, 5):
        file = data / f"images/{place}.png"
        file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(FovealError, match=r"images that can be read, got none; images/3\.png"):
        model.evaluate(resamples=0)


def test_a_label_map_that_cannot_be_read_is_refused_or_left_out(tmp_path):
    data = a_set(tmp_path / "set", IMAGES, split=SPLITS)
    (data / "masks/4.png").write_bytes(b"nothing")
    with pytest.raises(FovealError, match=r"masks/4\.png"):
        a_model().evaluate(data, resamples=0)
    found = a_model().evaluate(data, bad="leave_out", resamples=0)
    assert found.scores.images == 2
    assert "1 image left out: masks/4.png" in found.summary()
    own = a_model(data, bad="leave_out").evaluate(resamples=0)  # as the training did
    assert own.scores.images == 2


def test_a_fold_is_the_runs_own(tmp_path):
    data = a_set(tmp_path / "set", IMAGES, fold=[0, 1, 2, 0, 1, 2])
    model = a_model(data, fold=2)
    assert model.evaluate(resamples=0).figures[DECIDES] == pytest.approx(BY_HAND)
    assert math.isnan(model.evaluate(fold=1, resamples=0).figures[DECIDES])  # B shows nothing
    shutil.move(data, tmp_path / "moved")
    found = model.evaluate(tmp_path / "moved", resamples=0)
    assert (found.facts["fold"], found.figures[DECIDES]) == (2, pytest.approx(BY_HAND))


def test_folds_by_a_column(tmp_path):
    data = a_set(tmp_path / "set", IMAGES, campaign=["a", "b", "c", "a", "b", "c"])
    model = a_model(data, fold=2, fold_column="campaign")
    found = model.evaluate(resamples=0)
    assert (found.facts["fold"], found.facts["fold column"]) == ("2, c", "campaign")
    assert found.figures[DECIDES] == pytest.approx(BY_HAND)


def test_thin_classes_are_those_of_the_data(tmp_path):
    truth = np.zeros((12, 40), np.uint8)
    truth[5, 2:38], truth[8:11, 3:6] = 1, 2
    data = a_set(tmp_path / "set", [(truth, truth)] * 3, split=["train", "val", "test"])
    found = a_model(data).evaluate(resamples=0)
    assert found.facts["thin classes"] == ["crack"]
    assert found.figures["clDice of thin classes"] == 1
    assert [one.thin for one in found.scores.classes] == [True, False]


class Blind(Reads):
    """Takes everything for background."""

    def forward(self, images):
        return super().forward(images * torch.tensor([0.0, 1.0, 1.0])[:, None, None])


class Broken(Reads):
    def forward(self, images):
        return super().forward(images) * math.nan


def test_models_beside_each_other(data, tmp_path):
    first, blind = a_model(data), a_model(data, name="blind", network=Blind(3))
    found = first.evaluate(beside=[blind, first], resamples=40)
    text = found.summary()
    assert "| figure | reads | blind | reads |" in text
    row = next(line for line in text.splitlines() if line.startswith("| mIoU of findings, points, against reads"))
    _, nothing, worse, same = (cell.strip() for cell in row.strip("|").split("|"))
    assert nothing == "–"
    assert worse.startswith(f"{-100 * BY_HAND:.2f} (")
    assert same == "0.00 (0.00 to 0.00)"
    assert (tmp_path / "out/comparison.csv") in found.write(tmp_path / "out")
    assert "points" in (tmp_path / "out/comparison.csv").read_text()


class Choosy(Reads):
    """Says nothing of an image with a hole."""

    def forward(self, images):
        return super().forward(images) * (math.nan if images[:, 0].max() > 0.3 else 1.0)


def test_models_that_answered_for_other_images_have_no_difference(data):
    text = a_model(data).evaluate(beside=[a_model(data, name="choosy", network=Choosy(3))], resamples=9).summary()
    assert "left out: images/3.png: the model's answer is no number" in text
    row = next(line for line in text.splitlines() if "against reads" in line)
    assert row.endswith("| – | – |")


def test_without_resamples_models_have_no_difference(data):
    text = a_model(data).evaluate(beside=[a_model(data, name="other")], resamples=0).summary()
    row = next(line for line in text.splitlines() if "against reads" in line)
    assert row.endswith("| – | – |")


def test_answers_that_are_no_numbers_are_left_out(data):
    with pytest.raises(FovealError, match=r"images/3\.png: the model's answer is no number"):
        a_model(data, network=Broken(3)).evaluate(resamples=0)


def test_classes_of_a_card_are_in_the_order_of_its_label_maps(data, tmp_path):
    other = a_set(tmp_path / "other", IMAGES, kinds=KINDS[::-1], split=SPLITS)
    with pytest.raises(FovealError, match="expected the classes of reads, crack, hole, got hole, crack"):
        a_model(data).evaluate(other)
