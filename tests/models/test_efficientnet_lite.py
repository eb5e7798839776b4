"""EfficientNet-Lite: its builds, its padding, and transformers' EfficientNet as a witness."""

import pytest
import torch
from torch import nn

from foveal.errors import FovealError
from foveal.models.efficientnet_lite import PRESETS, EfficientNetLite, EfficientNetLiteConfig, lite_stages
from foveal.models.mbconv import MBConv, Same, Stage, Stages
from foveal.models.zoo import create

# Published parameters in millions, with the classifier of 1000 classes, and the side of the images.
PUBLISHED = {"efficientnet-lite0": (4.652, 224), "efficientnet-lite1": (5.417, 240), "efficientnet-lite2": (6.092, 260)}


def small(**changes):
    torch.manual_seed(0)
    return create("efficientnet-lite0", classes=3, image=32, **changes)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_its_published_parameters_and_side(name):
    with torch.device("meta"):
        model = create(name, classes=1000)
    millions, side = PUBLISHED[name]
    assert sum(parameter.numel() for parameter in model.parameters()) / 1e6 == pytest.approx(millions, abs=1e-3)
    assert model.config.image == side
    assert model(model.example(2)[0].to("meta")).shape == (2, 1000)


def test_what_is_scaled_and_what_stays():
    stages = lite_stages(1.1, 1.2)
    # 16 · 1.1 = 17.6 → 16, 24 → 26.4 → 24, 40 → 44 → 48, 80 → 88, 112 → 123.2 → 120, 192 → 211.2 → 208, 320 → 352
    assert [stage.width for stage in stages] == [16, 24, 48, 88, 120, 208, 352]
    assert [stage.blocks for stage in stages] == [1, 3, 3, 4, 4, 5, 1]  # the first and the last stay
    assert create("efficientnet-lite2").stages[0][0].out_channels == 32
    assert create("efficientnet-lite2").top[0].out_channels == 1280
    assert lite_stages(0.1, 0.1)[1] == Stage(8, blocks=1, stride=2, squeeze=False)
    assert lite_stages(0.8, 1)[1].width == 24  # 19.2 → 16 would be a sixth less


def test_nothing_squeezes_and_everything_is_capped_at_six():
    model = small()
    blocks = [part for part in model.modules() if isinstance(part, MBConv)]
    assert len(blocks) == model.config.depth() == 16
    assert all(isinstance(block.squeeze, nn.Identity) for block in blocks)
    assert sum(isinstance(part, nn.ReLU6) for part in model.modules()) == 2 + 1 + 2 * 15  # stem, top, blocks
    norms = [part for part in model.modules() if isinstance(part, nn.BatchNorm2d)]
    assert {(norm.eps, norm.momentum) for norm in norms} == {(1e-3, 0.01)}


@pytest.mark.parametrize(
    ("side", "kernel", "stride", "wanted"),
    [
        (6, 3, 2, [6, 12, 11]),  # even: nothing before, one zero after: 1+2+3, 3+4+5, 5+6+0
        (5, 3, 2, [3, 9, 9]),  # odd: one before, one after: 0+1+2, 2+3+4, 4+5+0
        (6, 5, 2, [10, 20, 15]),  # one before, two after: 0+1+2+3+4, 2+3+4+5+6, 4+5+6+0+0
        (5, 5, 2, [6, 15, 12]),
        (7, 3, 3, [3, 12, 13]),  # 0+1+2, 3+4+5, 6+7+0
        (6, 2, 3, [3, 9]),  # two windows of two need five: nothing is missing
    ],
)
@torch.no_grad()
def test_same_padding_by_hand(side, kernel, stride, wanted):
    row = torch.arange(1.0, side + 1)
    for shape in ((1, 1, side, 1), (1, 1, 1, side)):
        layer = Same(
            1, 1, [kernel if size > 1 else 1 for size in shape[2:]], [stride if s > 1 else 1 for s in shape[2:]]
        )
        nn.init.ones_(layer.weight)
        nn.init.zeros_(layer.bias)
        assert layer(row.view(shape)).flatten().tolist() == wanted


def test_the_gradient_of_same_padding_is_the_convolutions():
    layer = Same(3, 5, 3, 2, bias=False).double()
    x = torch.randn(2, 3, 8, 7, dtype=torch.float64, requires_grad=True)
    plain = nn.functional.conv2d(nn.functional.pad(x, (1, 1, 0, 1)), layer.weight, None, 2)
    assert torch.equal(layer(x), plain)
    assert torch.autograd.gradcheck(layer, (x,))


@torch.no_grad()
def test_transformers_is_a_witness():
    """EfficientNet-B0 without its squeezes, with ReLU6 and our weights, on sides that all strides halve."""
    transformers = pytest.importorskip("transformers")
    config = transformers.EfficientNetConfig(
        width_coefficient=1.0, depth_coefficient=1.0, hidden_dim=1280, hidden_act="relu6", batch_norm_eps=1e-3
    )
    theirs, ours = transformers.EfficientNetModel(config).double().eval(), small().double().eval()
    stir(ours)
    carry(ours.stages[0], theirs.embeddings.convolution, theirs.embeddings.batchnorm)
    carry(ours.top, theirs.encoder.top_conv, theirs.encoder.top_bn)
    for mine, other in zip(list(ours.stages)[1:], theirs.encoder.blocks, strict=True):
        if not isinstance(mine.expand, nn.Identity):
            carry(mine.expand, other.expansion.expand_conv, other.expansion.expand_bn)
        carry(mine.depthwise, other.depthwise_conv.depthwise_conv, other.depthwise_conv.depthwise_norm)
        carry(mine.project, other.projection.project_conv, other.projection.project_bn)
        other.squeeze_excite = nn.Identity()
    x = torch.randn(2, 3, 64, 96, dtype=torch.float64)
    want = theirs(x).last_hidden_state
    assert want.shape == (2, 1280, 2, 3)
    assert want.std() > 0.1
    torch.testing.assert_close(ours.top(ours.stages(x)), want, rtol=0, atol=1e-9)


def stir(model):
    """BatchNorm that has counted something, and moves its maps."""
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(std=0.3)
            part.running_var.uniform_(0.5, 1.5)
            part.bias.normal_(std=0.3)


def carry(mine, convolution, norm):
    convolution.weight.copy_(mine[0].weight)
    norm.load_state_dict(mine[1].state_dict())


@torch.no_grad()
def test_a_pooled_head_sees_the_mean_and_the_maximum_of_every_map():
    model, x = small(pooled=True).eval(), torch.rand(2, 3, 40, 33, generator=torch.Generator().manual_seed(3))
    model.norm.running_mean.uniform_(-1, 1)
    model.norm.running_var.uniform_(0.5, 2)
    wanted = []
    for maps, last in zip(zip(*model.features(x), strict=True), model.top(model.features(x)[-1]), strict=True):
        seen = [channel.mean().item() for channel in last]
        for one in maps:
            seen += [channel.mean().item() for channel in one] + [channel.max().item() for channel in one]
        scaled = (torch.tensor(seen) - model.norm.running_mean) / (model.norm.running_var + 1e-5).sqrt()
        wanted.append(model.head.weight @ scaled + model.head.bias)
    assert model.head.in_features == 1280 + 2 * (24 + 40 + 112 + 320)
    torch.testing.assert_close(model(x), torch.stack(wanted), rtol=1e-4, atol=1e-5)


def test_it_learns_and_takes_any_side():
    model = small()
    images = torch.randn(4, 3, 33, 47)
    model(images).square().sum().backward()
    assert all(parameter.grad is not None and bool(parameter.grad.any()) for parameter in model.parameters())
    assert model.eval()(images[:, :, :1, :1]).shape == (4, 3)


def test_new_weights_keep_the_size_of_what_they_see():
    model = small().train()
    with torch.no_grad():
        seen = model.top(model.stages(torch.randn(8, 3, 64, 64)))
    assert 0.1 < seen.std() < 10


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 0}, "EfficientNetLite's classes: expected at least 1, got 0"),
        ({"image": "a"}, "EfficientNetLite's image: expected an integer, at least 1, got 'a'"),
        ({"dropout": 1}, "EfficientNetLite's dropout: expected at least 0 and below 1, got 1"),
        ({"width_multiplier": 0}, "EfficientNetLite's width multiplier: expected above 0, at most 8, got 0"),
        (
            {"depth_multiplier": 1e9},
            "EfficientNetLite's depth multiplier: expected above 0, at most 8, got 1000000000.0",
        ),
        ({"depth_multiplier": "a"}, "EfficientNetLite's depth multiplier: expected above 0, at most 8, got 'a'"),
    ],
)
def test_what_cannot_be_built_is_named_in_one_line(changes, message):
    with pytest.raises(FovealError) as caught:
        EfficientNetLite(EfficientNetLiteConfig(**changes))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(1, 4, 32, 32), "EfficientNetLite's images: expected (B, 3, h, w), got (1, 4, 32, 32)"),
        (torch.zeros(3, 32, 32), "EfficientNetLite's images: expected (B, 3, h, w), got (3, 32, 32)"),
        ("a", "EfficientNetLite's images: expected (B, 3, h, w), got 'a'"),
    ],
)
def test_images_that_it_does_not_take(images, message):
    with pytest.raises(FovealError) as caught:
        small()(images)
    assert str(caught.value) == message


def test_a_convolution_that_nobody_knows():
    with pytest.raises(FovealError, match="no convolution is called 'caffe'"):
        Stages(5, convolution="caffe")
