"""A segmenter learns, is stopped and resumed, is exported, and says the same."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from tasks.segment.squares import FIELDS, squares

import foveal
from foveal.errors import FovealError
from foveal.models.segmenting import Learned
from foveal.tasks.segment.data import drawn_as_often
from foveal.tasks.segment.graph import Maps
from foveal.tasks.segment.loss import SegmentLoss, at_cells, expect_losses
from foveal.tasks.segment.module import SegmentModule
from foveal.tasks.segment.recipe import SegmentRecipe
from foveal.tasks.task import find_task


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return squares(tmp_path_factory.mktemp("squares"))


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    lines: list[str] = []
    fields = FIELDS | {"epochs": 25, "lr": 0.01}
    foveal.train("segment", data=str(data), out=out, device="cpu", announce=lines.append, **fields)
    said = "\n".join(lines)
    assert "found 0.67" in said  # what was chosen, and why
    assert "paste 0.5" in said
    return out


def test_it_learns(run):
    result = json.loads((run / "result.json").read_text())
    assert result["val_score"] > 0.6
    assert result["figure"] == "val_score"


def test_the_card_says_what_was_chosen(run):
    card = foveal.load(run).card
    assert card.classes == ("background", "red", "blue")
    assert (card.size, card.zoom, card.multiple) == (32, 1.0, 16)
    assert card.recipe["found"] is not None
    assert card.recipe["paste"] is not None


def test_a_run_that_is_resumed_has_the_same_weights(data, tmp_path, monkeypatch):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    fields = FIELDS | {"epochs": 3}
    foveal.train("segment", data=str(data), out=whole, device="cpu", **fields)
    real = SegmentModule.on_validation_epoch_start

    def stop(module):
        if module.current_epoch == 1:
            raise KeyboardInterrupt
        real(module)

    monkeypatch.setattr(SegmentModule, "on_validation_epoch_start", stop)
    with pytest.raises((KeyboardInterrupt, SystemExit, FovealError)):
        foveal.train("segment", data=str(data), out=stopped, device="cpu", **fields)
    monkeypatch.setattr(SegmentModule, "on_validation_epoch_start", real)
    foveal.train("segment", data=str(data), out=stopped, device="cpu", resume=True, **fields)
    one, other = (foveal.load(out).network.state_dict() for out in (whole, stopped))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.slow
def test_the_exported_file_gives_the_same_map_at_any_size(run, tmp_path):
    model = foveal.load(run)
    exported = model.export(tmp_path / "squares.onnx", probabilities=True)
    assert exported.proof["other"] <= 0.001 * exported.proof["pixels"]
    session = foveal.load(tmp_path / "squares.onnx").exported
    maps = Maps(model.network, model.card, probabilities=True).eval()
    for sides in ((16, 16), (33, 50), (77, 41)):
        frames = np.random.default_rng(1).integers(0, 256, (2, *sides, 3), np.uint8)
        answers = session({"frames": frames})
        with torch.no_grad():
            labels, scores, _, probability = (one.numpy() for one in maps(torch.from_numpy(frames)))
        assert (answers["label_map"] != labels).mean() <= 0.001
        assert np.abs(answers["scores"] - scores).max() < 1e-4
        assert np.abs(answers["probability"] - probability).max() < 1e-4
        assert answers["label_map"].shape == (2, *sides)


def test_where_each_query_looked_is_drawn(run, data, tmp_path):
    found = foveal.load(run).explain(data / "images/001.png")
    assert set(found.facts["scores"]) == {"red", "blue"}
    for name, maps in found.arrays.items():
        if name != "label_map":
            assert maps.shape == (3, 3, 3)
            assert np.allclose(maps.sum((1, 2)), 1, atol=1e-5)
    found.save(tmp_path / "looked.png")
    with Image.open(tmp_path / "looked.png") as picture:
        assert min(picture.size) > 200


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": "icam-31k"}, "no model that segments is called"),
        ({"zoom": 3.0}, "--zoom: expected one of"),
        ({"found": 1.5}, "--found: expected a share from 0 to 1"),
        ({"model": "icam-segg"}, "icam-seg"),
        ({"size": 16}, "--size"),
        ({"ohem": 1.5}, "--ohem: expected a share from 0 to 1"),
        ({"ohem": 0.2, "focal": 2.0}, "--ohem: expected 0 beside --focal"),
    ],
)
def test_bad_recipes(data, tmp_path, fields, words):
    with pytest.raises(FovealError, match=words):
        foveal.train("segment", data=str(data), out=tmp_path / "run", device="cpu", **FIELDS | {"config": {}} | fields)


def test_losses_that_a_model_has_of_its_own_are_refused_before_anything_is_written(data, tmp_path):
    fields = {"size": 64, "zoom": 1.0, "epochs": 1, "dice": 0.5}
    with pytest.raises(FovealError, match="--dice: expected 1 of maskformer-micro, whose queries have a loss of"):
        foveal.train("segment", data=str(data), out=tmp_path / "run", model="maskformer-micro", device="cpu", **fields)
    assert not (tmp_path / "run/recipe.yaml").exists()


def test_images_with_findings_are_drawn_as_often_as_asked():
    areas = np.zeros((10, 4), np.int64)
    areas[:, 0] = 100
    areas[0, 1] = areas[1, 1] = areas[2, 1] = areas[3, 1] = areas[4, 2] = 5
    often = drawn_as_often(areas, 0.8)
    assert often.sum() == pytest.approx(1)
    assert often[:5].sum() == pytest.approx(0.8)
    assert often[4] == pytest.approx(2 * often[0])  # one image of four: 1/√ of how many
    assert drawn_as_often(np.array([[9, 0, 0]]), 0.5) is None


def test_labels_in_the_middles_of_cells():
    labels = torch.arange(35).view(1, 5, 7)
    assert at_cells(labels, torch.zeros(1, 2, 2, 2)).tolist() == [[[16, 20], [255, 255]]]


def of_queries(data, **changes):
    """The loss of a model with three queries."""
    task = find_task("segment")
    recipe = SegmentRecipe(data=str(data), **FIELDS | {"balance": "none"} | changes)
    source = task.read(recipe)
    recipe, _ = task.settled(recipe, source)
    torch.manual_seed(0)
    queries = ((torch.randn(2, 3, 4), torch.randn(2, 3, 4, 4)),)
    labels = torch.zeros(2, 16, 16, dtype=torch.long)
    labels[0, 3:6, 2:13], labels[1, 8:12, 8:12] = 1, 2
    learned = Learned(torch.randn(2, 3, 4, 4), queries=queries)
    return float(SegmentLoss(recipe, source, source.indices("train"), None)(learned, labels))


def test_losses_of_maps_count_beside_that_of_a_set(data):
    whole = of_queries(data)
    assert of_queries(data, cldice=1.0) > whole
    assert of_queries(data, boundary_loss=1.0) != whole
    assert of_queries(data, dice=0.0) == whole  # the set has its own


@pytest.mark.parametrize("changes", [{"focal": 2.0}, {"ohem": 0.2}, {"dice": 0.5}, {"label_smoothing": 0.1}])
def test_a_model_of_queries_refuses_what_it_would_ignore(changes):
    (name,) = changes
    recipe = SegmentRecipe(data="x", model="maskformer-micro", **changes)
    queries = ((torch.randn(2, 3, 4), torch.randn(2, 3, 4, 4)),)
    words = f"--{name.replace('_', '-')}: expected .* of maskformer-micro, whose queries have a loss of their own, got"
    with pytest.raises(FovealError, match=words):
        expect_losses(recipe, Learned(torch.randn(2, 3, 4, 4), queries=queries))
    expect_losses(recipe, Learned(torch.randn(2, 3, 4, 4)))


def test_every_part_of_the_loss_counts(data):
    task = find_task("segment")
    recipe = SegmentRecipe(data=str(data), **FIELDS)
    source = task.read(recipe)
    recipe, _ = task.settled(recipe, source)
    train = source.indices("train")
    torch.manual_seed(0)
    labels = torch.zeros(2, 16, 16, dtype=torch.long)
    labels[0, 3:6, 2:13], labels[1, 8:12, 8:12] = 1, 2
    learned = Learned(torch.randn(2, 3, 4, 4), (torch.randn(2, 3, 2, 2),), torch.randn(2, 1, 4, 4), torch.randn(2, 2))
    value = lambda **changes: float(SegmentLoss(recipe.changed(**changes), source, train, None)(learned, labels))  # noqa: E731
    whole = value()
    for name in ("dice", "boundary", "presence", "deep"):
        assert value(**{name: 0.0}) < whole
    for name in ("cldice", "boundary_loss"):  # the latter may be below 0
        assert value(**{name: 0.5}) != whole
        assert value(**{name: 1.0}) - whole == pytest.approx(2 * (value(**{name: 0.5}) - whole), rel=1e-3)
    assert value(cldice=1.0) > whole
    assert value(ohem=1.0) == pytest.approx(whole)
    assert value(ohem=0.1) > value(ohem=0.5) > whole  # the hardest pixels cost most
    assert value(focal=2.0) != whole
    assert value(balance="weights") != whole
