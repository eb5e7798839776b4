"""A mixture of kernels by hand and beside torch's convolutions. What holds for all modules: tests/test_every.py."""

import math

import onnxruntime
import pytest
import torch
from case import error
from layers.carry import scatter
from oracle.dynamic_mixture import like
from torch import nn
from torch.nn import functional

from foveal.core.watch import watch
from foveal.errors import FovealError
from foveal.vision.dynamic_mixture import DynamicMixture


def maps(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


SIZES = [
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": 1, "bias": False},
    {"kernel_size": 3, "stride": 2, "padding": 2, "groups": 2},
    {"kernel_size": 2, "dilation": 3, "groups": 6},
]


def test_by_hand():
    # One channel with means 2 and 0; W_a = 1, W_b = (0, ln 3), τ = 2: shares softmax(0, ln 3) = (1/4, 3/4), and
    # (1/2, 1/2). Kernels 4 and 8 and biases 0 and 4 become 7 and 3, 6 and 2.
    layer = DynamicMixture(1, 1, 1, kernels=2, temperature=2.0).double()
    with torch.no_grad():
        layer.reduce.weight.fill_(1)
        layer.widen.weight.copy_(torch.tensor([0.0, math.log(3)]).view(2, 1, 1, 1))
        for part in (layer.reduce, layer.widen):
            part.bias.zero_()
        layer.weight.copy_(torch.tensor([4.0, 8.0]).view(2, 1, 1, 1, 1))
        layer.bias.copy_(torch.tensor([[0.0], [4.0]]))
        y = layer(torch.tensor([[[[1.0, 3.0]]], [[[-1.0, 1.0]]]], dtype=torch.float64))
    assert error(y, torch.tensor([[[[10.0, 24.0]]], [[[-4.0, 8.0]]]], dtype=torch.float64)) < 1e-6


@pytest.mark.parametrize("sizes", SIZES)
@torch.no_grad()
def test_it_is_the_oracle_in_both_ways(sizes):
    layer, x = scatter(DynamicMixture(6, 12, kernels=3, temperature=0.7, **sizes).double()), maps(2, 6, 5, 7)
    expected = torch.tensor(like(layer, x), dtype=torch.float64)
    assert error(layer(x), expected) < 1e-12
    assert error(layer._summed(x, layer.mixture(x)), expected) < 1e-12


@pytest.mark.parametrize("sizes", SIZES)
@torch.no_grad()
def test_each_image_gets_torchs_convolution_with_its_kernel(sizes):
    layer, x = scatter(DynamicMixture(6, 12, kernels=3, **sizes).double()), maps(5, 6, 5, 7)
    y, mixture = layer(x), layer.mixture(x)
    assert error(mixture.sum(1), torch.ones(5)) < 1e-12
    theirs = nn.Conv2d(6, 12, **sizes).double()
    for b in range(5):
        theirs.weight.copy_(torch.einsum("k,kocyx->ocyx", mixture[b], layer.weight))
        if theirs.bias is not None:
            theirs.bias.copy_(mixture[b] @ layer.bias)
        assert error(y[b], theirs(x[b])) < 1e-12


@torch.no_grad()
def test_temperature_decides_how_much_is_mixed():
    layer, x = scatter(DynamicMixture(6, 12, 3, kernels=3).double()), maps(5, 6, 5, 7)
    assert float(layer.temperature) == 30
    warm = layer.mixture(x)
    layer.temperature.fill_(1e-4)
    cold = layer.mixture(x)
    assert float(warm.max()) < 0.5
    assert float(cold.amax(1).min()) > 0.99
    other = DynamicMixture(6, 12, 3, kernels=3).double()
    other.load_state_dict(layer.state_dict())
    assert error(other(x), layer(x)) == 0  # the temperature came along


def test_one_kernel_is_a_convolution():
    layer, x = scatter(DynamicMixture(6, 12, 3, kernels=1).double()), maps(5, 6, 5, 7)
    assert error(layer(x), functional.conv2d(x, layer.weight[0], layer.bias[0])) < 1e-12


def test_watch_sees_the_mixture():
    layer, x = scatter(DynamicMixture(6, 12, 3, kernels=3).double()), maps(5, 6, 5, 7)
    model = nn.Sequential(layer)
    with watch(model) as seen:
        model(x)
    assert error(seen["0"].weights, layer.mixture(x)[:, None, None]) == 0


@pytest.mark.parametrize("batch", [None, "any"])
@torch.no_grad()
def test_it_exports_for_a_batch_of_any_size(batch, tmp_path):
    layer = scatter(DynamicMixture(6, 12, 3, kernels=3, stride=2, padding=1, groups=2)).eval()
    path = str(tmp_path / "mixture.onnx")
    sizes = ({axis: torch.export.Dim(name) for axis, name in ((0, "batch"), (2, "height"), (3, "width"))},)
    torch.onnx.export(
        layer,
        (maps(2, 6, 5, 7).float(),),
        path,
        dynamo=True,
        verbose=False,
        input_names=["maps"],
        dynamic_shapes=sizes if batch else None,
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for shape in ((1, 6, 5, 7), (3, 6, 9, 4)) if batch else ((2, 6, 5, 7),):
        x = maps(*shape).float()
        (y,) = session.run(None, {"maps": x.numpy()})
        assert error(torch.from_numpy(y), layer(x)) < 1e-5


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@torch.no_grad()
def test_graphs_and_no_maps():
    layer = scatter(DynamicMixture(6, 12, 3, kernels=3)).eval()
    traced = torch.jit.trace(layer, (maps(2, 6, 5, 7).float(),))
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="eager", fullgraph=True, dynamic=True)
    for batch in (2, 3, 5):
        x = maps(batch, 6, 5, 7).float()
        assert error(traced(x), layer(x)) < 1e-5
        assert error(compiled(x), layer(x)) < 1e-5
    assert layer(torch.rand(0, 6, 5, 7)).shape == (0, 12, 3, 5)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: DynamicMixture(0, 5, 3), "DynamicMixture's width: expected an integer, at least 1, got 0"),
        (
            lambda: DynamicMixture(6, 5, (3, 3)),
            "DynamicMixture's kernel_size: expected an integer, at least 1, got (3, 3)",
        ),
        (
            lambda: DynamicMixture(6, 5, 3, kernels=0),
            "DynamicMixture's kernels: expected an integer, at least 1, got 0",
        ),
        (lambda: DynamicMixture(6, 5, 3, padding=-1), "DynamicMixture's padding: expected at least 0, got -1"),
        (lambda: DynamicMixture(6, 5, 3, groups=3), "groups: expected a divisor of the widths 6 and 5, got 3"),
        (lambda: DynamicMixture(6, 5, 3, temperature=0), "temperature: expected a number above 0, got 0"),
        (lambda: DynamicMixture(6, 5, 3, temperature=math.nan), "temperature: expected a number above 0, got nan"),
        (lambda: DynamicMixture(6, 5, 3, activation=nn.ReLU), "expected a layer, such as torch.nn.ReLU()"),
        (lambda: DynamicMixture(6, 5, 3)(torch.rand(2, 5, 3, 3)), "expected (B, 6, h, w), got (2, 5, 3, 3)"),
        (
            lambda: DynamicMixture(6, 5, 3, dilation=2)(torch.rand(2, 6, 7, 4)),
            "maps: expected sides of at least 5 with padding, got (2, 6, 7, 4) with a padding of 0",
        ),
        (lambda: DynamicMixture(6, 5, 3)(torch.ones(2, 6, 3, 3).long()), "torch.int64"),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(FovealError) as caught:
        call()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
