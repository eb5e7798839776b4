import pytest
import torch
from layers.carry import near, scatter
from torch import nn
from torch.nn import functional as F

from foveal.errors import FovealError
from foveal.models.mbconv import ACTIVATIONS, MBConv, Stage, Stages, _FewChannels


def images(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def stirred(module):
    """In float64 and evaluation, with no gain 1, no bias 0, and BatchNorm that has counted something."""
    scatter(module.double().eval())
    generator = torch.Generator().manual_seed(7)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.copy_(torch.randn(part.num_features, generator=generator))
            part.running_var.copy_(torch.rand(part.num_features, generator=generator) + 0.5)
    return module


def test_the_start_of_efficientnet_b0():
    phi = Stages()
    assert phi.width == 24
    assert [count(part) for part in phi] == [928, 1448, 6004, 10710]
    assert phi(torch.randn(2, 3, 56, 56)).shape == (2, 24, 14, 14)


def test_a_block_adds_its_input_only_where_the_shapes_agree():
    for width, stride, adds in ((13, 1, True), (13, 2, False), (11, 1, False)):
        block = stirred(MBConv(width, Stage(13, expand=2), stride))
        nn.init.zeros_(block.project[1].weight)
        nn.init.zeros_(block.project[1].bias)
        x = images(2, width, 7, 5)
        y = block(x)
        assert torch.equal(y, x if adds else torch.zeros_like(y))


def test_parts_are_left_out_where_they_are_not_asked_for():
    assert isinstance(MBConv(7, Stage(5, expand=1), 1).expand, nn.Identity)
    assert isinstance(MBConv(7, Stage(5, squeeze=False), 1).squeeze, nn.Identity)
    assert MBConv(7, Stage(5, kernel=5), 1)(torch.randn(2, 7, 11, 3)).shape == (2, 5, 11, 3)
    assert len(Stages(5, (Stage(7, blocks=3, stride=2),))) == 4
    assert Stages(5, (Stage(7, blocks=3, stride=2),))(torch.randn(2, 3, 16, 16)).shape == (2, 7, 4, 4)


@torch.no_grad()
def test_transformers_is_a_witness():
    """EfficientNet-B0's first stages with the weights carried over, padded evenly as in PyTorch,
    with the ε of BatchNorm as there.
    """
    transformers = pytest.importorskip("transformers")
    config = transformers.EfficientNetConfig(width_coefficient=1.0, depth_coefficient=1.0, batch_norm_eps=1e-5)
    theirs = stirred(transformers.EfficientNetModel(config))
    blocks = list(theirs.encoder.blocks)[:3]
    theirs.embeddings.padding = nn.ZeroPad2d(1)  # TensorFlow's form pads strided convolutions on one side only
    blocks[1].depthwise_conv.depthwise_conv_pad = nn.ZeroPad2d(1)
    ours = Stages().double().eval()
    carry(ours[0], theirs.embeddings.convolution, theirs.embeddings.batchnorm)
    for mine, other in zip(list(ours)[1:], blocks, strict=True):
        if not isinstance(mine.expand, nn.Identity):
            carry(mine.expand, other.expansion.expand_conv, other.expansion.expand_bn)
        carry(mine.depthwise, other.depthwise_conv.depthwise_conv, other.depthwise_conv.depthwise_norm)
        mine.squeeze.reduce.load_state_dict(other.squeeze_excite.reduce.state_dict())
        mine.squeeze.widen.load_state_dict(other.squeeze_excite.expand.state_dict())
        carry(mine.project, other.projection.project_conv, other.projection.project_bn)
    x = images(2, 3, 56, 40)
    want = theirs.embeddings(x)
    for block in blocks:
        want = block(want)
    assert near(ours(x), want, 1e-9)
    assert want.abs().max() > 1e-2


def carry(part, convolution, norm):
    part[0].load_state_dict(convolution.state_dict())
    part[1].load_state_dict(norm.state_dict())


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (Stage(0), "a stage's width: expected at least 1, got 0"),
        (Stage(7, blocks=0), "a stage's blocks: expected at least 1, got 0"),
        (Stage(7, expand=0), "a stage's expand: expected at least 1, got 0"),
        (Stage(7, stride=0), "a stage's stride: expected at least 1, got 0"),
        (Stage(7, kernel=4), "a stage's kernel: expected an odd number, got 4"),
        (Stage("a"), "a stage's width: expected an integer, at least 1, got 'a'"),
        (7, "Stages' stages: expected a tuple of Stage, got 7"),
    ],
)
def test_a_stage_that_cannot_be_built_is_named_in_one_line(stage, message):
    with pytest.raises(FovealError) as caught:
        Stages(5, (stage,))
    assert str(caught.value) == message


def test_a_stem_that_cannot_be_built():
    with pytest.raises(FovealError, match="Stages' stem: expected at least 1, got 0"):
        Stages(0)
    with pytest.raises(
        FovealError, match="Stages' kernel: expected at least the stride, 4, or pixels are skipped, got 3"
    ):
        Stages(5, stride=4)
    with pytest.raises(FovealError, match="no activation is called 'swish'"):
        Stages(5, activation="swish")


@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (4, 4), (5, 4), (7, 4), (3, 1), (2, 2), (8, 8)])
def test_a_stem_divides_by_its_stride_and_nothing_else(kernel, stride):
    assert Stages(5, (), kernel=kernel, stride=stride)(torch.randn(1, 3, 56, 56)).shape == (
        1,
        5,
        56 // stride,
        56 // stride,
    )


@pytest.mark.parametrize("convolution", ["torch", "tensorflow"])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (4, 4), (5, 4), (3, 1), (2, 2)])
@torch.no_grad()
def test_the_side_of_the_last_map_is_known_before_it_is_made(kernel, stride, convolution):
    for stages in ((), (Stage(3, stride=2, kernel=5), Stage(3, stride=3))):
        phi = Stages(5, stages, kernel=kernel, stride=stride, convolution=convolution).eval()
        for pixels in range(25, 37):
            assert phi.side(pixels) == phi(torch.zeros(1, 3, pixels, pixels)).shape[-1], pixels


def test_activations():
    kinds = {"silu": nn.SiLU, "relu": nn.ReLU, "relu6": nn.ReLU6, "hardswish": nn.Hardswish}
    assert kinds == ACTIVATIONS
    for name, kind in kinds.items():
        phi = Stages(5, (Stage(7, expand=2),), activation=name)
        assert sum(isinstance(module, kind) for module in phi.modules()) == 4  # stem, expansion, depthwise, squeeze


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 2, 1), (3, 2, 0), (3, 1, 1), (4, 4, 0), (7, 2, 3)])
def test_the_gradient_of_few_channels_is_the_convolutions(kernel, stride, padding):
    x = torch.randn(2, 3, 12, 16, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, 3, kernel, kernel, dtype=torch.float64, requires_grad=True)
    given = torch.autograd.grad(_FewChannels.apply(x, weight, stride, padding).sin().sum(), (x, weight))
    expected = torch.autograd.grad(F.conv2d(x, weight, None, stride, padding).sin().sum(), (x, weight))
    torch.testing.assert_close(given, expected)
