"""Attention U-Net: its equations by torch's functions, MONAI's layers as a witness, and other models as its encoder.

What a gate does: tests/vision/test_attention_gate.py.
"""

import pytest
import torch
from models.segments import by_onnx, is_loaded, is_small, joint, linear, slopes, stirred, unreached
from models.witness import images, parameters
from torch import nn
from torch.nn import functional as F

from foveal.errors import FovealError
from foveal.models.attention_unet import PRESETS, AttentionUnet, AttentionUnetConfig
from foveal.models.zoo import create
from foveal.runtime.card import LITE_MEAN, LITE_STD
from foveal.tasks.load import list_models
from foveal.vision.attention_gate import resampled

SMALL = AttentionUnetConfig(classes=3, image=20, widths=(5, 7, 11))


def made(config=SMALL):
    torch.manual_seed(0)
    return stirred(AttentionUnet(config))


def up(maps, times):
    return F.interpolate(maps, scale_factor=times, mode="bilinear", align_corners=False)


@pytest.mark.parametrize("ungated", [0, 1])
@pytest.mark.parametrize("sides", [(20, 20), (12, 28), (4, 4)])
@torch.no_grad()
def test_it_is_the_equations(sides, ungated):
    model = made(AttentionUnetConfig(classes=3, widths=(5, 7, 11), ungated=ungated)).double()
    state, x = model.state_dict(), images(*sides).double()

    def double(name, x):
        return joint(state, f"{name}.1", joint(state, f"{name}.0", x))

    def gated(name, x, g):
        """The gate on half the side, where the mean of 2 × 2 places meets the signal."""
        met = F.conv2d(F.avg_pool2d(x, 2), state[f"{name}.from_maps.weight"]) + linear(state, f"{name}.from_signal", g)
        return x * up(linear(state, f"{name}.score", met.relu()).sigmoid(), 2)

    fine = double("backbone.blocks.0", x)
    middle = double("backbone.blocks.1", F.max_pool2d(fine, 2))
    coarse = double("backbone.blocks.2", F.max_pool2d(middle, 2))
    signal = joint(state, "signal", coarse)
    y_1 = double("steps.0.block", torch.cat([gated("steps.0.gate", middle, signal), up(coarse, 2)], 1))
    passed = fine if ungated else gated("steps.1.gate", fine, y_1)
    y_0 = double("steps.1.block", torch.cat([passed, up(y_1, 2)], 1))
    s_1, s_0 = linear(state, "says.0", y_1), linear(state, "says.1", y_0)
    learned = model.learn(x)
    assert (learned.logits - linear(state, "join", torch.cat([up(s_1, 2), s_0], 1))).abs().max() < 1e-9
    assert torch.equal(learned.logits, model(x))
    (deep,) = learned.deep
    assert (deep - s_1).abs().max() < 1e-9


def test_deep_logits_are_those_of_every_coarser_scale_the_finest_first():
    model = made(AttentionUnetConfig(classes=3, widths=(4, 5, 6, 7)))
    learned = model.learn(images(16, 24))
    assert learned.logits.shape == (2, 3, 16, 24)
    assert [tuple(one.shape) for one in learned.deep] == [(2, 3, 8, 12), (2, 3, 4, 6)]
    assert (model.stride, model.multiple) == (1, 8)


class OnFineGrid(nn.Module):
    """Our gate as MONAI calls its own: the signal comes resampled to the grid of the maps."""

    def __init__(self, gate):
        super().__init__()
        self.gate = gate

    def forward(self, maps, signal):
        return self.gate(maps, resampled(signal, maps))


@torch.no_grad()
def test_monai_is_a_witness_of_blocks_gates_and_what_goes_where():
    """MONAI's layers, nested by its own AttentionLayer, with pooling, bilinear upsampling and a block behind the gate
    in place of its strides, transposed convolutions and single convolution.
    """
    from monai.networks.nets.attentionunet import AttentionBlock, AttentionLayer, ConvBlock

    ours = made(AttentionUnetConfig(classes=3, widths=(5, 7, 11), ungated=0))
    for step in ours.steps:
        step.gate = OnFineGrid(step.gate)
    ours.signal = nn.Identity()  # MONAI's coarsest map is the signal itself

    def block(double, before, width):
        theirs = ConvBlock(2, before, width).eval()
        for mine, other in zip(double, theirs.conv, strict=True):
            other.conv.weight.copy_(mine[0].weight)
            other.conv.bias.zero_()
            other.adn.N.load_state_dict(mine[1].state_dict())
        return theirs

    def layer(step, width, below, inside):
        theirs = AttentionLayer(2, width, below, inside)
        theirs.upconv = nn.Upsample(scale_factor=2, mode="bilinear")
        theirs.merge = block(step.block, width + below, width)
        theirs.attention = AttentionBlock(2, f_int=width, f_g=below, f_l=width)
        gate = step.gate.gate
        for mine, other in (
            (gate.from_maps, theirs.attention.W_x),
            (gate.from_signal, theirs.attention.W_g),
            (gate.score, theirs.attention.psi),
        ):
            other[0].conv.weight.copy_(mine.weight)
            other[0].conv.bias.zero_() if mine.bias is None else other[0].conv.bias.copy_(mine.bias)
            other[1].eps = 0.0  # a new BatchNorm: nothing in evaluation
        return theirs.eval()

    down = [block(double, *pair) for double, pair in zip(ours.backbone.blocks, ((3, 5), (5, 7), (7, 11)), strict=True)]
    inner = layer(ours.steps[0], 7, 11, nn.Sequential(nn.MaxPool2d(2), down[2]))
    theirs = nn.Sequential(down[0], layer(ours.steps[1], 5, 7, nn.Sequential(nn.MaxPool2d(2), down[1], inner)))
    seen = {}
    ours.steps[1].register_forward_hook(lambda _, __, y: seen.update(y=y))
    x = images(12, 20)
    ours(x)
    assert theirs(x).std() > 0.1
    torch.testing.assert_close(seen["y"], theirs(x), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_a_gate_that_is_closed_lets_nothing_pass():
    model, x = made(), images(12, 20)
    gate = model.steps[0].gate
    open_ = model(x)
    gate.score.bias.fill_(-200.0)
    gate.score.weight.zero_()
    closed = model(x)
    assert not torch.allclose(open_, closed)
    model.steps[0].gate = None
    model.steps[0].block[0][0].weight[:, :7] = 0  # the channels of e_1: only the coarse map is left
    assert torch.equal(model(x), closed)


def test_how_large_it_is():
    assert parameters(create("attention-unet", classes=2)) == 33_471_325
    assert is_small("attention-unet-micro")
    assert [step.gate is None for step in create("attention-unet-micro").steps] == [False, False, False, True]


@pytest.mark.parametrize(
    ("name", "strides", "widths"),
    [
        ("efficientnet-lite0", (4, 8, 16, 32), (24, 40, 112, 320)),
        ("vit-micro", (4, 8, 16, 32), (64,) * 4),
        ("icam-lite", (2, 4, 8), (16, 24, 40)),
    ],
)
def test_any_model_that_gives_maps_may_be_the_encoder(name, strides, widths):
    torch.manual_seed(0)
    multiple = 224 if name == "icam-lite" else 32  # the side of its patch
    side = max(multiple, 96)
    model = AttentionUnet(AttentionUnetConfig(classes=3, image=side, backbone=name))
    assert (model.backbone.strides, model.backbone.widths) == (strides, widths)
    assert (model.stride, model.multiple) == (strides[0], multiple)
    learned = model.eval().learn(images(side, side))
    assert learned.logits.shape == (2, 3, side // strides[0], side // strides[0])
    assert [one.shape[2] for one in learned.deep] == [side // stride for stride in strides[1:-1]]
    lite = name in ("efficientnet-lite0", "icam-lite")
    assert (model.normalisation == (LITE_MEAN, LITE_STD)) == lite


@pytest.mark.parametrize("name", ["", "efficientnet-lite0", "swin-micro"])
def test_every_weight_learns(name):
    torch.manual_seed(0)
    side = 64 if name else 20
    model = stirred(AttentionUnet(AttentionUnetConfig(3, side, widths=(5, 7, 11), backbone=name)))
    assert unreached(model, images(side, side)) == []


def test_its_gradient_goes_through_gates_and_signals():
    model = made(AttentionUnetConfig(classes=3, widths=(5, 7, 11), ungated=0)).double()
    slope, measured = slopes(model, images(8, 12).double())
    assert slope == pytest.approx(measured, rel=1e-5)


@pytest.mark.parametrize("name", ["", "vit-micro"])
def test_it_is_saved_and_loaded(tmp_path, name):
    config = AttentionUnetConfig(classes=3, image=64, widths=(5, 7, 11), backbone=name)
    assert is_loaded(made(config), images(32, 64), tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the exporter about itself
def test_onnx_equals_torch_on_any_size():
    others = images(8, 44, batch=3), images(52, 4, batch=1)
    assert by_onnx(made(), images(12, 20), *others) < 1e-4


def test_it_is_known_by_its_names():
    assert set(PRESETS) <= set(list_models(task="segment"))
    assert isinstance(create("attention_unet", classes=3, widths=[4, 6, 8]), AttentionUnet)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 0}, "AttentionUnet's classes: expected at least 1, got 0"),
        ({"widths": (8,)}, "AttentionUnet's widths: expected channels of two scales or more, got (8,)"),
        ({"ungated": -1}, "AttentionUnet's ungated: expected at least 0, got -1"),
        ({"ungated": 4}, "AttentionUnet's ungated: expected less than 4, or no gate is left, got 4"),
        ({"backbone": 3}, "AttentionUnet's backbone: expected a name, got 3"),
        ({"backbone": "efficientnet-lite"}, "no backbone is called 'efficientnet-lite'; the nearest is"),
        ({"backbone": "transformer-tiny"}, "no backbone is called 'transformer-tiny'"),
    ],
)
def test_what_cannot_be_built_is_named_in_one_line(changes, message):
    with pytest.raises(FovealError) as caught:
        AttentionUnet(AttentionUnetConfig(**changes))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_images_that_do_not_fit_are_named_in_one_line():
    message = r"AttentionUnet's images: expected sides that 4 divides, got \(8, 10\); pad them"
    with pytest.raises(FovealError, match=message):
        made()(torch.zeros(1, 3, 8, 10))
