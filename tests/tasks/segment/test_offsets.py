"""Offsets of logits are those that make the label maps of the validation split the best."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tasks.segment.squares import FIELDS, squares

import foveal
from foveal.errors import FovealError
from foveal.metrics.segmentation import confusion, measure
from foveal.models.store import save_model
from foveal.models.zoo import create
from foveal.progress import silent
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.graph import Maps
from foveal.tasks.segment.offsets import GRID, NEAR, best_offsets
from foveal.tasks.segment.recipe import SegmentRecipe
from foveal.tasks.segment.task import TASK
from foveal.tasks.segment.training import SegmentTraining


def miou(logits, labels, classes):
    """By the metrics of the report, of the classes that have pixels."""
    counts = confusion(labels.numpy()[None], logits.argmax(1).numpy()[None], classes - 1)
    iou = measure(counts[None])(None)["IoU"][1:]
    return float(np.mean([value for place, value in enumerate(iou, 1) if (labels == place).any()]))


def drawn(seed, pixels=400, classes=3):
    """Pixels whose true class has the larger logit, and one class that is said far too often."""
    draw = torch.Generator().manual_seed(seed)
    labels = (torch.rand(pixels, generator=draw) * classes).long()
    labels[: pixels // 2] = 0
    logits = torch.randn(pixels, classes, generator=draw)
    logits[torch.arange(pixels), labels] += 1.5
    logits[:, 1] += 3.0
    return logits, labels


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000))
def test_no_offset_of_the_grid_is_better_by_more_than_what_is_given_up(seed):
    logits, labels = drawn(seed)
    offsets = torch.tensor(best_offsets(logits, labels))
    assert offsets[0] == 0
    reached = miou(logits + offsets, labels, 3)
    assert reached >= miou(logits, labels, 3)
    for other in GRID:  # of the class that was fitted last
        moved = offsets.clone()
        moved[2] = other
        assert miou(logits + moved, labels, 3) <= reached + NEAR + 1e-9


def test_a_class_that_is_said_too_often_is_moved_down_and_one_without_pixels_stays():
    logits, labels = drawn(0)
    wide = torch.cat([logits, torch.full((len(logits), 1), 0.3)], 1)
    offsets = best_offsets(wide, labels)
    assert offsets[1] < -1.5
    assert offsets[3] == 0
    assert all(offset in GRID for offset in offsets)


def test_maps_add_them():
    model = create("icam-seg", classes=3, image=64).eval()
    card = SegmentCard(
        model="icam-seg",
        family="icam_seg",
        config={},
        classes=("background", "a", "b"),
        size=64,
        mean=(0.5,) * 3,
        std=(0.2,) * 3,
    )
    frames = torch.randint(0, 256, (1, 40, 50, 3), dtype=torch.uint8)
    with torch.no_grad():
        plain = Maps(model, card).seen(frames)
        moved = Maps(model, dataclasses.replace(card, offsets=(0.0, -2.0, 1.0))).seen(frames)
    torch.testing.assert_close(moved - plain, torch.tensor([0.0, -2.0, 1.0])[:, None, None].expand_as(plain))
    for offsets in ((0.0,), (0.0, 1.0, float("nan")), ["a", "b", "c"]):
        with pytest.raises(FovealError, match="a number for each class"):
            dataclasses.replace(card, offsets=offsets).check("card")


def test_a_run_keeps_them_and_every_way_to_use_it_has_them(tmp_path):
    data = squares(tmp_path / "data", side=(72, 80))
    out = tmp_path / "run"
    fields = FIELDS | {"epochs": 6, "lr": 0.01, "zoom": 0.5}  # an image that is shrunk is shrunk once
    foveal.train("segment", data=str(data), out=out, device="cpu", announce=lambda line: None, **fields)
    model = foveal.load(out)
    assert len(model.card.offsets) == 3
    result = json.loads((out / "result.json").read_text())
    assert result["val_score_with_offsets"] >= result["val_score_without_offsets"] - NEAR
    assert result["val_score_without_offsets"] == pytest.approx(
        result["val_score"], abs=0.02
    )  # nothing is shrunk twice
    assert foveal.load(model.save_pretrained(tmp_path / "kept")).card.offsets == model.card.offsets
    foveal.train(
        "segment",
        data=str(data),
        out=tmp_path / "without",
        device="cpu",
        announce=lambda line: None,
        **fields | {"offsets": False},
    )
    assert foveal.load(tmp_path / "without").card.offsets == ()


def test_a_run_validates_images_at_the_size_that_it_learns_from(tmp_path):
    recipe = SegmentRecipe(data=str(squares(tmp_path)), **FIELDS | {"zoom": 0.5})
    source = TASK.read(recipe)
    recipe = TASK.settled(recipe, source).recipe
    training = SegmentTraining(recipe, source, tmp_path, SimpleNamespace(workers=0, devices=1), silent, True)
    seen = []
    hook = training.module.evaluated.register_forward_pre_hook(lambda model, given: seen.append(tuple(given[0].shape)))
    training.module.validation_step(next(iter(training.data.val_dataloader())), 0)
    hook.remove()
    assert seen == [(1, 3, 32, 32)]  # half of 36 × 40, padded; twice shrunk it would be 16 × 16


def test_the_exported_file_has_them(tmp_path):
    model = create("icam-seg", classes=3, image=64).eval()
    card = TASK.new_card("icam-seg", model)
    for name, offsets in (("plain", ()), ("moved", (0.0, 30.0, 0.0))):
        save_model(model, tmp_path / f"{name}.safetensors", dataclasses.replace(card, offsets=offsets))
        foveal.load(tmp_path / f"{name}.safetensors").export(tmp_path / f"{name}.onnx")
    frames = np.random.default_rng(0).integers(0, 256, (1, 50, 70, 3), np.uint8)
    plain, moved = (
        foveal.load(tmp_path / f"{name}.onnx").exported({"frames": frames})["label_map"] for name in ("plain", "moved")
    )
    assert (moved == 1).all()
    assert (plain != 1).any()
