"""U-Net: its equation by torch's functions, its sizes, and what holds for every model that gives maps."""

import copy

import pytest
import torch
from models.segments import by_onnx, is_loaded, is_small, joint, linear, slopes, stirred, unreached
from models.witness import images, parameters
from torch.nn import functional as F

from foveal.errors import FovealError
from foveal.models.features import gives_maps
from foveal.models.image_model import fold_batch_norms
from foveal.models.unet import PRESETS, Unet, UnetConfig
from foveal.models.zoo import create
from foveal.tasks.load import list_models

SMALL = UnetConfig(classes=3, image=20, widths=(5, 7, 11))


def made(config=SMALL):
    torch.manual_seed(0)
    return stirred(Unet(config))


@pytest.mark.parametrize("sides", [(20, 20), (12, 28), (4, 4)])
@torch.no_grad()
def test_it_is_the_equation(sides):
    model, x = made().double(), images(*sides).double()
    state = model.state_dict()

    def double(name, x):
        return joint(state, f"{name}.1", joint(state, f"{name}.0", x))

    def up(name, x):
        return F.conv_transpose2d(x, state[f"{name}.weight"], state[f"{name}.bias"], stride=2)

    fine = double("backbone.blocks.0", x)
    middle = double("backbone.blocks.1", F.max_pool2d(fine, 2))
    coarse = double("backbone.blocks.2", F.max_pool2d(middle, 2))
    y = double("blocks.0", torch.cat([up("up.0", coarse), middle], 1))
    y = double("blocks.1", torch.cat([up("up.1", y), fine], 1))
    logits = model(x)
    assert logits.shape == (2, 3, *sides)
    assert (logits - linear(state, "head", y)).abs().max() < 1e-9


def test_it_has_the_published_parameters():
    with torch.device("meta"):
        assert parameters(create("unet-64", classes=1)) == 31_037_633
        assert parameters(create("unet-16", classes=1)) == 1_942_577
    assert is_small("unet-8")


@torch.no_grad()
def test_without_batch_norms_the_smallest_has_the_weights_of_an_exported_u_net():
    model, x = stirred(create("unet-8", classes=6)), images(16, 32)
    folded = fold_batch_norms(copy.deepcopy(model))
    assert parameters(model) - parameters(folded) == 2 * (8 + 16 + 32 + 64 + 128) + 2 * (8 + 16 + 32 + 64)
    assert parameters(folded) == 485_862
    torch.testing.assert_close(folded(x), model(x), rtol=1e-3, atol=1e-4)


def test_its_maps_are_those_of_the_way_down():
    model = made()
    assert gives_maps(model)
    assert (model.strides, model.widths, model.stride, model.multiple) == ((1, 2, 4), (5, 7, 11), 1, 4)
    maps = model.features(images(12, 28))
    assert [tuple(one.shape[1:]) for one in maps] == [(5, 12, 28), (7, 6, 14), (11, 3, 7)]


def test_a_pixel_is_seen_as_far_as_the_coarsest_map_sees():
    """2 cells of stride 4, 4 of strides 2 and of 1: 20 pixels, and up to 3 that pooling rounds off."""
    model, x = made(), torch.zeros(1, 3, 80, 80)
    other = x.clone()
    other[..., 41, 30] = 9.0
    rows, columns = (model(x) != model(other)).any(1)[0].nonzero().T
    for places, middle in ((rows, 41), (columns, 30)):
        assert 17 <= middle - places.min() <= 23
        assert 17 <= places.max() - middle <= 23


def test_every_weight_learns():
    assert unreached(made(), images(20, 12)) == []
    slope, measured = slopes(made().double(), images(8, 12).double())
    assert slope == pytest.approx(measured, rel=1e-5)


def test_dropout_is_for_training_alone():
    model, x = made(UnetConfig(classes=3, widths=(5, 7, 11), dropout=0.5)), images(8, 12)
    assert torch.equal(model(x), model(x))
    model.dropout.train()
    assert not torch.equal(model(x), model(x))


def test_it_is_saved_and_loaded(tmp_path):
    assert is_loaded(made(), images(8, 12), tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the exporter about itself
def test_onnx_equals_torch_on_any_size():
    others = images(8, 44, batch=3), images(52, 4, batch=1)
    assert by_onnx(made(), images(12, 20), *others) < 1e-4


def test_it_is_known_by_its_names():
    assert set(PRESETS) <= set(list_models(task="segment"))
    assert isinstance(create("unet", classes=3, widths=[4, 6]), Unet)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 0}, "Unet's classes: expected at least 1, got 0"),
        ({"image": "a"}, "Unet's image: expected an integer, at least 1, got 'a'"),
        ({"widths": (8,)}, "Unet's widths: expected channels of two scales or more, got (8,)"),
        ({"widths": 8}, "Unet's widths: expected channels of two scales or more, got 8"),
        ({"widths": (8, 0)}, "Unet's widths: expected at least 1, got 0"),
        ({"dropout": 1}, "Unet's dropout: expected at least 0 and below 1, got 1"),
    ],
)
def test_what_cannot_be_built_is_named_in_one_line(changes, message):
    with pytest.raises(FovealError) as caught:
        Unet(UnetConfig(**changes))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.zeros(1, 3, 8, 10), "Unet's images: expected sides that 4 divides, got (8, 10); pad them"),
        (torch.zeros(1, 3, 10, 8), "Unet's images: expected sides that 4 divides, got (10, 8); pad them"),
        (torch.zeros(1, 1, 8, 8), "Unet's images: expected (B, 3, h, w) with sides of at least 4, got (1, 1, 8, 8)"),
        (torch.zeros(1, 3, 8, 8).double(), "expected torch.float32, as its weights, got torch.float64"),
        (None, "got None"),
    ],
)
def test_images_that_do_not_fit_are_named_in_one_line(given, message):
    with pytest.raises(FovealError) as caught:
        made()(given)
    assert message in str(caught.value)
