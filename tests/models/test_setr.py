"""SETR: the equations of its decoders by torch's functions and layers, and what holds for every model that gives maps.

What it shares with ViT: tests/models/test_vit.py.
"""

import pytest
import torch
from models.segments import by_onnx, is_loaded, is_small, joint, linear, slopes, stirred, torch_layer, unreached
from models.witness import images, parameters
from torch.nn import functional as F

from foveal.errors import FovealError
from foveal.models.image_model import depth_rates
from foveal.models.setr import DECODERS, PRESETS, Setr, SetrConfig
from foveal.models.vit import Stem
from foveal.models.zoo import create
from foveal.tasks.load import list_models

SIZES = {"classes": 3, "image": 32, "width": 15, "heads": 3, "layers": 4, "hidden": 22, "decoder_width": 6}


def made(decoder="naive", levels=(1, 3, 4), **changes):
    torch.manual_seed(0)
    return stirred(Setr(SetrConfig(decoder=decoder, levels=levels, **SIZES | {"patch": 8} | changes)))


def up(maps, times):
    return F.interpolate(maps, scale_factor=times, mode="bilinear", align_corners=False)


def maps_of(model, x, levels):
    """m of these layers, by torch's own, for images of 16 × 24 and patches of 8 × 8."""
    state = model.state_dict()
    table = F.interpolate(state["backbone.position.table"].permute(2, 0, 1)[None], (2, 3), mode="bicubic")
    weight, bias = state["backbone.patches.weight"], state["backbone.patches.bias"]
    z = (F.conv2d(x, weight, bias, stride=8) + table).flatten(2).mT
    maps = []
    for number, block in enumerate(model.backbone.layers, 1):
        z = torch_layer(block, 3)(z)
        if number in levels:
            name = f"backbone.norms.{len(maps)}"
            normed = F.layer_norm(z, (15,), state[f"{name}.weight"], state[f"{name}.bias"], 1e-6)
            maps.append(normed.mT.unflatten(2, (2, 3)))
    return state, maps


def two_layers(state, name, one):
    return linear(state, f"{name}.3", joint(state, name, one))


def near(learned, logits, deep):
    assert logits.std() > 0.1
    assert (learned.logits - logits).abs().max() < 1e-9
    assert len(learned.deep) == len(deep)
    for mine, other in zip(learned.deep, deep, strict=True):
        assert (mine - other).abs().max() < 1e-9


@torch.no_grad()
def test_naive_is_the_equation():
    model, x = made("naive").double(), images(16, 24).double()
    state, maps = maps_of(model, x, (1, 3, 4))
    deep = [two_layers(state, f"decoder.auxiliary.{place}", maps[place]) for place in (0, 1)]
    near(model.learn(x), two_layers(state, "decoder.head", maps[2]), deep)
    assert torch.equal(model(x), model.learn(x).logits)


@torch.no_grad()
def test_pup_is_the_equation():
    model, x = made("pup").double(), images(16, 24).double()
    state, maps = maps_of(model, x, (1, 3, 4))
    y = maps[2]
    for step in range(3):
        y = up(joint(state, f"decoder.steps.{step}", y), 2)
    deep = [up(two_layers(state, f"decoder.auxiliary.{place}", maps[place]), 4) for place in (0, 1, 2)]
    near(model.learn(x), two_layers(state, "decoder.head", y), deep)
    assert torch.equal(model(x), model.learn(x).logits)


@torch.no_grad()
def test_mla_is_the_equation():
    model, x = made("mla").double(), images(16, 24).double()
    state, maps = maps_of(model, x, (1, 3, 4))
    first, middle, last = (joint(state, f"decoder.lateral.{place}", maps[place]) for place in range(3))
    seen = [first + middle + last, middle + last, last]
    seen = [joint(state, f"decoder.smooth.{place}", seen[place]) for place in range(3)]
    wide = [
        up(joint(state, f"decoder.twice.{place}.1", joint(state, f"decoder.twice.{place}.0", seen[place])), 4)
        for place in range(3)
    ]
    deep = [linear(state, f"decoder.auxiliary.{place}", seen[place]) for place in range(3)]
    near(model.learn(x), linear(state, "decoder.head", torch.cat(wide, 1), padding=1), deep)
    assert torch.equal(model(x), model.learn(x).logits)


@pytest.mark.parametrize(("decoder", "stride"), [("naive", 8), ("pup", 1), ("mla", 2)])
@pytest.mark.parametrize("sides", [(32, 32), (8, 56), (24, 40)])
def test_images_of_any_size_that_patches_divide(decoder, stride, sides):
    model = made(decoder)
    assert (model.multiple, model.stride) == (8, stride)
    assert model(images(*sides)).shape == (2, 3, sides[0] // stride, sides[1] // stride)


def test_a_preset_has_the_layers_of_the_vit_and_the_decoder_of_the_paper():
    with torch.device("meta"):
        vit = create("vit-base", image=512, classes=1)
        without = 2 * 768 + 768 + 1 + 2 * 768  # class token and its position, head, and LN, of which each map has one
        encoder = parameters(vit) - without
        # one hidden layer of 256 channels with BatchNorm, and 1 × 1 to the classes
        one, three = 768 * 256 + 512 + 256 * 2 + 2, 768 * 9 * 256 + 512 + 256 * 2 + 2
        naive, pup, mla = (create(f"setr-{name}-base") for name in ("naive", "pup", "mla"))
        norms = 4 * 2 * 768
        assert parameters(naive) == encoder + norms + 4 * one
        assert parameters(pup) == encoder + norms + 5 * three + 3 * (256 * 9 * 256 + 512)
        stream = 768 * 256 + 512 + 256 * 9 * 256 + 512 + 256 * 9 * 128 + 256 + 128 * 9 * 128 + 256
        heads = 4 * 128 * 9 * 2 + 2 + 4 * (256 * 2 + 2)
        assert parameters(mla) == encoder + norms + 4 * stream + heads
        assert [create(f"setr-{name}-large").config.depth() for name in ("naive", "pup", "mla")] == [24, 24, 24]
    assert (naive.stride, pup.stride, mla.stride) == (16, 2, 4)


def test_micro_is_small_and_reads_patches_by_convolutions():
    assert is_small("setr-micro")
    model = create("setr-micro", classes=3)
    assert isinstance(model.backbone.patches, Stem)
    assert model.eval()(images(32, 48)).shape == (2, 3, 16, 24)


@torch.no_grad()
def test_its_encoder_begins_with_the_weights_of_a_vit():
    """Their tensors have the same names and shapes."""
    vit = create("vit-tiny", image=32, patch=8, width=15, heads=3, layers=4, hidden=22).state_dict()
    own = made().backbone.state_dict()
    fitting = {name for name, one in own.items() if name in vit and vit[name].shape == one.shape}
    assert {name for name in own if not name.startswith("norms.")} == fitting


def test_stochastic_depth_grows_with_the_layers_and_is_off_in_evaluation():
    model, x = made(drop_path=0.6), images(16, 24)
    assert [one.attention.drop_path for one in model.backbone.layers] == pytest.approx(depth_rates(0.6, 4))
    assert torch.equal(model(x), model(x))
    model.backbone.train()
    assert not torch.equal(model(x), model(x))


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
@pytest.mark.parametrize(("decoder", "stem"), [("naive", ()), ("mla", ()), ("pup", (4, 5, 6, 7))])
def test_onnx_equals_torch_on_any_size(decoder, stem):
    model = made(decoder, (1, 2), layers=2, patch=16, stem=stem)
    others = images(32, 48, batch=3), images(80, 16, batch=1)
    assert by_onnx(model, images(48, 80), *others) < 1e-4


def test_it_is_known_by_its_names():
    assert set(PRESETS) <= set(list_models(task="segment"))
    assert isinstance(create("setr", levels=[1], **SIZES | {"layers": 1}), Setr)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 0}, "Setr's classes: expected at least 1, got 0"),
        ({"decoder": "pop"}, "no decoder is called 'pop'; the nearest is 'pup'"),
        ({"decoder": None}, "no decoder is called 'None'"),
        ({"levels": ()}, "Setr's levels: expected layers in their order, the last of which is 4, got ()"),
        ({"levels": (3, 1, 4)}, "the last of which is 4, got (3, 1, 4)"),
        ({"levels": (0, 4)}, "got (0, 4)"),
        ({"levels": (2, 3)}, "got (2, 3)"),
        ({"levels": 4}, "got 4"),
        ({"decoder": "pup", "patch": 12}, "Setr's patch: expected a multiple of 8, for pup, got 12"),
        ({"decoder": "mla", "decoder_width": 7}, "Setr's decoder_width: expected an even number, for mla, got 7"),
        ({"heads": 4}, "heads"),
        ({"stem": (4, 5)}, "Vit's patch: expected 4, as a stem of 2 convolutions halves it, got 8"),
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
        (torch.zeros(1, 3, 16, 20), "Setr's images: expected sides that 8 divides, got (16, 20); pad them"),
        (torch.zeros(1, 3, 20, 16), "Setr's images: expected sides that 8 divides, got (20, 16); pad them"),
        (torch.zeros(1, 3, 4, 16), "Setr's images: expected (B, 3, h, w) with sides of at least 8, got (1, 3, 4, 16)"),
        (torch.zeros(1, 3, 8, 8).double(), "expected torch.float32, as its weights, got torch.float64"),
    ],
)
def test_images_that_do_not_fit_are_named_in_one_line(given, message):
    with pytest.raises(FovealError) as caught:
        made()(given)
    assert message in str(caught.value)
