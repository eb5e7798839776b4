"""Segmenter: its equations by torch's functions and layers, and what holds for every model that gives maps.

What it shares with ViT: tests/models/test_vit.py.
"""

import pytest
import torch
from models.segments import by_onnx, is_loaded, is_small, slopes, stirred, torch_layer, unreached
from models.witness import images, parameters
from torch import nn
from torch.nn import functional as F

from foveal.errors import FovealError
from foveal.models.segmenter import DECODERS, PRESETS, Scaled, Segmenter, SegmenterConfig
from foveal.models.vit import Stem
from foveal.models.zoo import create
from foveal.tasks.load import list_models

SIZES = {"patch": 8, "width": 15, "heads": 3, "layers": 3, "hidden": 22, "decoder_layers": 2, "drop_path": 0.0}


def made(decoder="mask", classes=5, **changes):
    torch.manual_seed(0)
    return stirred(Segmenter(SegmenterConfig(classes, 32, decoder, **SIZES | changes)))


def normed(state, name, x):
    return F.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"], 1e-6)


def projected(model, x):
    """W LN(z_L) + b of the patches, by torch's own layers, for images of 16 × 24 and patches of 8 × 8."""
    state = model.backbone.state_dict()
    table = F.interpolate(state["position.table"].permute(2, 0, 1)[None], (2, 3), mode="bicubic")
    patches = F.conv2d(x, state["patches.weight"], state["patches.bias"], stride=8) + table
    first = (state["class_token"] + state["class_position"]).expand(len(x), -1, -1)
    z = torch.cat([first, patches.flatten(2).mT], 1)
    for block in model.backbone.layers:
        z = torch_layer(block, 3)(z)
    return normed(state, "norm", z)[:, 1:] @ state["head.weight"].T + state["head.bias"]


@torch.no_grad()
def test_linear_is_the_equation():
    model, x = made("linear").double(), images(16, 24).double()
    logits = projected(model, x).mT.unflatten(2, (2, 3))
    assert logits.std() > 0.1
    assert (model(x) - logits).abs().max() < 1e-9


@pytest.mark.parametrize("classes", [5, 2])
@torch.no_grad()
def test_mask_is_the_equation(classes):
    model, x = made("mask", classes).double(), images(16, 24).double()
    state = model.decoder.state_dict()
    both = torch.cat([projected(model, x), state["classes"].expand(2, -1, -1)], 1)
    for block in model.decoder.layers:
        both = torch_layer(block, 3)(both)
    both = normed(state, "norm", both)
    patches, names = both[:, :6] @ state["of_patches.weight"].T, both[:, 6:] @ state["of_classes.weight"].T
    alike = torch.cosine_similarity(patches[:, :, None], names[:, None], dim=-1)  # (B, N, K)
    if classes == 2:
        logits = alike * state["mask_norm.weight"] + state["mask_norm.bias"]
    else:
        logits = normed(state, "mask_norm", alike)
    assert logits.std() > 0.1
    assert (model(x) - logits.mT.unflatten(2, (2, 3))).abs().max() < 1e-8


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("sides", [(32, 32), (8, 56), (24, 40)])
def test_images_of_any_size_that_patches_divide(decoder, sides):
    model = made(decoder)
    assert (model.multiple, model.stride) == (8, 8)
    assert model(images(*sides)).shape == (2, 5, sides[0] // 8, sides[1] // 8)


@torch.no_grad()
def test_a_class_is_its_embedding():
    """Classes in another order give the same maps in that order."""
    model, x, order = made(), images(16, 24), [3, 0, 4, 1, 2]
    logits = model(x)
    model.decoder.classes.data = model.decoder.classes[order]
    for parameter in model.decoder.mask_norm.parameters():
        parameter.data = parameter[order]
    torch.testing.assert_close(model(x), logits[:, order], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_new_class_embeddings_tell_patches_apart():
    torch.manual_seed(0)
    logits = create("segmenter-micro", classes=4).eval()(images(64, 64))
    torch.testing.assert_close(logits.mean(1), torch.zeros(2, 4, 4), rtol=0, atol=1e-5)
    torch.testing.assert_close(logits.var(1, correction=0), torch.ones(2, 4, 4), rtol=0, atol=1e-2)


def test_of_two_classes_a_norm_would_hide_how_sure_it_is():
    """LN of two numbers is 1 and −1; the factor in its place learns from a loss as the others do."""
    model, x = made(classes=2), images(16, 24)
    assert isinstance(model.decoder.mask_norm, Scaled)
    logits = model(x)
    assert logits.diff(dim=1).abs().std() > 0.1
    F.cross_entropy(logits, torch.zeros(2, 2, 3, dtype=torch.int64)).backward()
    learned = model.decoder.classes.grad.abs().max()
    model.decoder.mask_norm, model.decoder.classes.grad = nn.LayerNorm(2, 1e-6), None
    logits = model(x)
    torch.testing.assert_close(logits.abs(), torch.ones(2, 2, 2, 3), rtol=0, atol=1e-2)
    F.cross_entropy(logits, torch.zeros(2, 2, 3, dtype=torch.int64)).backward()
    assert model.decoder.classes.grad.abs().max() < learned / 10


def test_a_preset_has_the_parameters_of_its_parts():
    with torch.device("meta"):
        for name, vit in (("tiny", "vit-tiny"), ("base", "vit-base")):
            config = create(f"segmenter-{name}-mask").config
            width, hidden, classes = config.width, config.hidden, 150
            layer = 4 * width * width + 4 * width + 2 * width * hidden + hidden + width + 4 * width
            decoder = 2 * layer + 2 * width + 2 * width * width + classes * width + 2 * classes
            model = create(f"segmenter-{name}-mask", classes=classes)
            assert parameters(model) == parameters(create(vit, image=512, classes=width)) + decoder
        assert parameters(create("segmenter-tiny-linear", classes=150)) == parameters(
            create("vit-tiny", image=512, classes=150)
        )


def test_micro_is_small_and_reads_patches_by_convolutions():
    assert is_small("segmenter-micro")
    model = create("segmenter-micro", classes=3)
    assert isinstance(model.backbone.patches, Stem)
    assert model.eval()(images(32, 48)).shape == (2, 3, 2, 3)


@pytest.mark.parametrize(
    ("changes", "part"),
    [({"drop_path": 0.6}, "backbone"), ({"decoder_dropout": 0.5}, "decoder")],
)
def test_what_is_dropped_is_dropped_in_training_alone(changes, part):
    model, x = made(**changes), images(16, 24)
    assert torch.equal(model(x), model(x))
    getattr(model, part).train()
    assert not torch.equal(model(x), model(x))
    other = made(decoder_dropout=0.0)
    getattr(other, part).train()
    assert torch.equal(other(x), other(x)), "and by nothing else"


def test_each_half_has_a_dropout_of_its_own():
    model = made(dropout=0.2, attention_dropout=0.3, decoder_dropout=0.4)
    for part, rate, inner in ((model.backbone, 0.2, 0.3), (model.decoder, 0.4, 0.4)):
        layer = part.layers[0]
        assert (layer.attention.dropout, layer.attention.layer.dropout) == (rate, inner)
        assert (layer.feed_forward.dropout, layer.feed_forward.layer.dropout.p) == (rate, rate)


@pytest.mark.parametrize("decoder", DECODERS)
def test_every_weight_learns(decoder):
    assert unreached(made(decoder), images(24, 16)) == []
    slope, measured = slopes(made(decoder).double(), images(16, 24).double())
    assert slope == pytest.approx(measured, rel=1e-5)


@pytest.mark.parametrize("decoder", DECODERS)
def test_it_is_saved_and_loaded(tmp_path, decoder):
    assert is_loaded(made(decoder, patch=16, stem=(4, 5, 6, 7)), images(32, 16), tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the exporter about itself
@pytest.mark.parametrize(("decoder", "stem"), [("linear", ()), ("mask", (4, 5, 6, 7))])
def test_onnx_equals_torch_on_any_size(decoder, stem):
    model = made(decoder, layers=1, decoder_layers=1, patch=16, stem=stem)
    others = images(32, 48, batch=3), images(80, 16, batch=1)
    assert by_onnx(model, images(48, 80), *others) < 1e-4


def test_it_is_known_by_its_names():
    assert set(PRESETS) <= set(list_models(task="segment"))
    assert isinstance(create("segmenter", classes=3, **SIZES), Segmenter)
    assert create("segmenter-tiny-linear").config.depth() == 12
    assert create("segmenter-micro").config.depth() == 4 + 5 + 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 0}, "Segmenter's classes: expected at least 1, got 0"),
        ({"decoder": "masks"}, "no decoder is called 'masks'; the nearest is 'mask'"),
        ({"decoder": None}, "no decoder is called 'None'"),
        ({"decoder_layers": 0}, "Segmenter's decoder_layers: expected at least 1, got 0"),
        ({"decoder_dropout": 1.0}, "Segmenter's decoder_dropout: expected at least 0 and below 1, got 1.0"),
        ({"width": 16}, "heads"),
        ({"layers": "a"}, "Vit's layers: expected an integer, at least 1, got 'a'"),
    ],
)
def test_what_cannot_be_built_is_named_in_one_line(changes, message):
    with pytest.raises(FovealError) as caught:
        made(**changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.zeros(1, 3, 16, 20), "Segmenter's images: expected sides that 8 divides, got (16, 20); pad them"),
        (torch.zeros(1, 3, 20, 16), "Segmenter's images: expected sides that 8 divides, got (20, 16); pad them"),
        (torch.zeros(1, 3, 4, 16), "Segmenter's images: expected (B, 3, h, w) with sides of at least 8"),
        (torch.zeros(1, 3, 8, 8).double(), "expected torch.float32, as its weights, got torch.float64"),
    ],
)
def test_images_that_do_not_fit_are_named_in_one_line(given, message):
    with pytest.raises(FovealError) as caught:
        made()(given)
    assert message in str(caught.value)
