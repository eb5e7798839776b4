"""The margin's strength: logits ℓ_k − (τ − 1) log π_k, in the weights that are kept."""

import numpy as np
import pytest
import torch
from torch import nn
from training.little import FIELDS, a_set, rows, trained

from foveal.errors import FovealError
from foveal.models.store import load_model
from foveal.models.zoo import create
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.logit_adjustment import adjust_logits
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.training.harness import Machine
from foveal.vision.same_shape import SAME_SHAPE


@pytest.mark.parametrize("name", ["icam-31k", "resnet-18", "efficientnet-b0", "deit-tiny"])
def test_every_model_is_shifted_by_exactly_that(name):
    if name != "icam-31k":
        pytest.importorskip("transformers")
    torch.manual_seed(0)
    model, shift = create(name, classes=3).eval(), torch.tensor([0.5, -1.0, 0.25])
    images = torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        before = model(images)
        adjust_logits(model, shift)
        torch.testing.assert_close(model(images), before + shift)


@pytest.mark.parametrize("attention", SAME_SHAPE)
@torch.no_grad()
def test_attention_on_the_map_is_not_what_answers(attention):
    torch.manual_seed(0)
    config = {"image": 28, "patch": 14, "pool": 2, "pooled": True}
    model = create("icam-31k", classes=24, attention=attention, **config).eval()  # as many classes as Φ has channels
    images, shift = torch.randn(2, 3, 28, 28), torch.linspace(-1, 1, 24)
    before = model(images)
    adjust_logits(model, shift)
    torch.testing.assert_close(model(images), before + shift)


def test_a_model_without_a_last_bias_is_refused():
    with pytest.raises(
        FovealError, match=r"--margin: expected a model whose last layer has a bias for each class, got Linear"
    ):
        adjust_logits(nn.Linear(4, 2, bias=False), torch.zeros(2))
    with pytest.raises(FovealError, match="a bias for each class, got Linear; choose --margin 1"):
        adjust_logits(nn.Linear(4, 3), torch.zeros(2))


def logits(run):
    return np.array(
        [[float(row["logit left"]), float(row["logit right"])] for row in rows(run / "predictions-test.csv")]
    )


def test_a_run_differs_by_the_shift_and_nothing_else(tmp_path):
    data = a_set(tmp_path / "set")
    for margin in (1.0, 1.8):
        trained(
            ClassifyRecipe(data=str(data), fold=1, balance="margin", margin=margin, **FIELDS),
            tmp_path / f"{margin}",
            machine=Machine(device="cpu"),
        )
    labels = [row["label"] for row in rows(data / "labels.csv") if row["fold"] == "0"]  # fold 1 tests, fold 2 selects
    share = np.array([labels.count("left") + 1, labels.count("right") + 1]) / (len(labels) + 2)
    moved = logits(tmp_path / "1.8") - logits(tmp_path / "1.0")
    np.testing.assert_allclose(moved, np.broadcast_to(-0.8 * np.log(share), moved.shape), atol=2e-5)
    model, _ = load_model(tmp_path / "1.8", ClassifyCard)
    kept, _ = load_model(tmp_path / "1.0", ClassifyCard)
    changed = [name for name, weight in model.state_dict().items() if not torch.equal(weight, kept.state_dict()[name])]
    assert changed == ["head.3.bias"]
