"""MobileNetV3-S and V4-S against graphs of timm's networks, where these lie beside the checkout: the same convolutions
in the same order, the same work, and with the weights of the graph the same logits.
"""

import math
from pathlib import Path

import onnxruntime
import pytest
import torch
from layers.carry import near
from torch import nn

from foveal.deploy.measure.cost import flops, parameters
from foveal.models.mobilenet import V3_SMALL, V4_CONV_SMALL, Block, Inverted
from foveal.models.peer import Peer, PeerConfig

ROOT = Path(__file__).parents[2]
GRAPHS = next((one for one in (ROOT / "shared/peers", ROOT.parent / "shared/peers") if one.is_dir()), ROOT)
FILES = {"mobilenet-v3-s": "mobilenetv3_small_100.onnx", "mobilenet-v4-s": "mobilenetv4_conv_small.onnx"}
SIZES = {"mobilenet-v3-s": 2_542_856, "mobilenet-v4-s": 3_774_024}  # parameters with 1000 classes, as timm counts them


@pytest.mark.parametrize("kind", SIZES)
def test_parameters_for_imagenet_are_those_of_timm(kind):
    assert parameters(Peer(PeerConfig(kind, classes=1000))) == SIZES[kind]


def test_a_middle_convolution_has_the_stride_and_a_first_one_no_activation():
    block = Inverted(5, Block(7, 11, 3, 2, start=5)).eval()
    shapes = [(part.groups, part.kernel_size[0], part.stride[0]) for part in block.modules() if type(part) is nn.Conv2d]
    assert shapes == [(5, 5, 1), (1, 1, 1), (11, 3, 2), (1, 1, 1)]
    assert sum(isinstance(part, nn.ReLU) for part in block.modules()) == 2
    assert not block.residual
    alone = Inverted(5, Block(5, 11, 0, start=3))
    assert alone.residual
    assert [part.kernel_size[0] for part in alone.modules() if type(part) is nn.Conv2d] == [3, 1, 1]


@torch.no_grad()
def test_a_gate_stands_between_the_middle_and_the_projection():
    torch.manual_seed(0)
    block, x = Inverted(5, Block(7, 11, 3, squeeze=3, hard=True)).double().eval(), torch.randn(2, 5, 6, 7).double()
    h = block.depthwise(block.expand(x))
    hidden = (torch.einsum("oi,bi->bo", block.squeeze.reduce.weight[..., 0, 0], h.mean((2, 3)))).add(
        block.squeeze.reduce.bias
    )
    gate = torch.einsum("oi,bi->bo", block.squeeze.widen.weight[..., 0, 0], hidden.relu()) + block.squeeze.widen.bias
    want = block.project(h * (gate / 6 + 0.5).clamp(0, 1)[:, :, None, None])
    assert near(block(x), want, 1e-12)


def test_every_width_of_the_gates_is_a_quarter_in_eights():
    for block in V3_SMALL:
        assert block.squeeze in (0, max(8, math.ceil(block.hidden / 32) * 8))
    assert not any(block.squeeze for block in V4_CONV_SMALL)


# --- the graphs -------------------------------------------------------------------------------------------------------


def graph_of(kind):
    onnx = pytest.importorskip("onnx")
    if not (GRAPHS / FILES[kind]).is_file():
        pytest.skip(f"{FILES[kind]} does not lie beside the checkout")
    return onnx, onnx.load(GRAPHS / FILES[kind])


def carried(onnx, proto, model):
    """The graph's weights in our model. BatchNorm is folded into the graph's convolutions: ours scales by 1."""
    arrays = {one.name: torch.from_numpy(onnx.numpy_helper.to_array(one).copy()) for one in proto.graph.initializer}
    arrays |= {node.output[0]: arrays[node.input[0]] for node in proto.graph.node if node.op_type == "Identity"}
    theirs = [node for node in proto.graph.node if node.op_type == "Conv"]
    parts = list(model.net.modules())
    ours = [(place, part) for place, part in enumerate(parts) if isinstance(part, nn.Conv2d)]
    assert len(ours) == len(theirs)
    for (place, part), node in zip(ours, theirs, strict=True):
        facts = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        assert tuple(facts["strides"]) == part.stride
        assert facts["pads"] == [*part.padding, *part.padding]
        assert facts["group"] == part.groups
        weight, bias = (arrays[name] for name in node.input[1:])
        assert weight.shape == part.weight.shape
        part.weight.copy_(weight)
        if part.bias is not None:
            part.bias.copy_(bias)
            continue
        norm = parts[place + 1]
        norm.running_mean.zero_()
        norm.running_var.fill_(1 - norm.eps)
        norm.weight.fill_(1)
        norm.bias.copy_(bias)
    model.net.classifier.weight.copy_(arrays["classifier.weight"])
    model.net.classifier.bias.copy_(arrays["classifier.bias"])
    return theirs


@pytest.mark.parametrize("kind", FILES)
@torch.no_grad()
def test_with_the_weights_of_the_graph_it_gives_the_logits_of_the_graph(kind):
    onnx, proto = graph_of(kind)
    model = Peer(PeerConfig(kind)).eval()
    carried(onnx, proto, model)
    images = torch.randn(3, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    session = onnxruntime.InferenceSession(GRAPHS / FILES[kind], providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {session.get_inputs()[0].name: images.numpy()})
    want = torch.from_numpy(want)
    assert (want[0] - want[1]).abs().max() > 1e-3 * want.abs().max(), "images differ in what is said of them"
    torch.testing.assert_close(model(images), want, rtol=1e-4, atol=1e-4 * float(want.abs().max()))


@pytest.mark.parametrize("kind", FILES)
def test_it_multiplies_as_often_as_the_graph(kind):
    onnx, proto = graph_of(kind)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    shaped = onnx.shape_inference.infer_shapes(proto).graph
    shapes = {one.name: [side.dim_value for side in one.type.tensor_type.shape.dim] for one in shaped.value_info}
    sizes = {one.name: math.prod(one.dims) for one in proto.graph.initializer}
    products = sum(
        sizes[node.input[1]] * math.prod(shapes[node.output[0]][2:])
        for node in proto.graph.node
        if node.op_type == "Conv"
    )
    products += sizes["classifier.weight"]
    model = Peer(PeerConfig(kind))
    assert flops(model, *model.example()) == 2 * products
