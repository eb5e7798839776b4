"""What the tests of models that give maps share: torch's own layers with their weights, and what holds for each."""

import onnxruntime
import torch
from models.witness import spread
from torch import nn
from torch.nn import functional as F

from foveal.deploy.onnx.silence import quiet
from foveal.models.segmenting import learn
from foveal.models.store import describe, load_model, save_model
from foveal.models.zoo import create
from foveal.runtime.card import Card

MOST = 500_000  # parameters of a micro build


def stirred(model):
    """In evaluation mode, every parameter moved, and BatchNorm with something to take off."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.running_mean.copy_(torch.randn(part.num_features, generator=generator) / 3)
                part.running_var.copy_(torch.rand(part.num_features, generator=generator) + 0.5)
    return spread(model)


def joint(state, name, x):
    """δ(BN(W x)) of the three layers of this name, or with `name`.0, .1 and .2 of as many as there are."""
    weight = state[f"{name}.0.weight"]
    y = F.conv2d(x, weight, padding=weight.shape[2] // 2)
    return F.relu(normed(state, f"{name}.1", y))


def normed(state, name, y):
    """BatchNorm of evaluation, by its definition."""
    mean, variance, gain, offset = (
        state[f"{name}.{key}"][:, None, None] for key in ("running_mean", "running_var", "weight", "bias")
    )
    return (y - mean) / (variance + 1e-5).sqrt() * gain + offset


def linear(state, name, x, padding=0):
    """W x + b of maps."""
    return F.conv2d(x, state[f"{name}.weight"], state[f"{name}.bias"], padding=padding)


def torch_layer(block, heads, epsilon=1e-6):
    """torch's own layer of a Transformer with the weights of ours."""
    attention, network = block.attention.layer, block.feed_forward.layer
    other = nn.TransformerEncoderLayer(
        attention.width,
        heads,
        network.inner.out_features,
        0.0,
        "gelu",
        layer_norm_eps=epsilon,
        batch_first=True,
        norm_first=True,
    ).to(attention.qkv.weight.dtype)
    other.self_attn.in_proj_weight.data = attention.qkv.weight.data
    other.self_attn.in_proj_bias.data = attention.qkv.bias.data
    for mine, theirs in (
        (attention.out, other.self_attn.out_proj),
        (network.inner, other.linear1),
        (network.outer, other.linear2),
        (block.attention.norm, other.norm1),
        (block.feed_forward.norm, other.norm2),
    ):
        theirs.load_state_dict(mine.state_dict())
    return other


def unreached(model, images):
    """The parameters that no gradient reaches while the model learns."""
    model.train()
    learned = learn(model, images)
    generator = torch.Generator().manual_seed(7)
    given = [learned.logits, *learned.deep, *(one for one in (learned.boundary, learned.presence) if one is not None)]
    sum((one * torch.randn(one.shape, generator=generator, dtype=one.dtype)).sum() for one in given).backward()
    return [name for name, one in model.named_parameters() if one.grad is None or not one.grad.any()]


def slopes(model, images):
    """How the logits change with every parameter and the images along some direction: by the gradient, and by a small
    step there and back.
    """
    images = images.clone().requires_grad_()
    learning = [*model.parameters(), images]
    generator = torch.Generator().manual_seed(11)
    ways = [torch.randn(one.shape, generator=generator, dtype=one.dtype) / 3 for one in learning]
    mixture = torch.randn(model(images).shape, generator=generator, dtype=images.dtype)

    def loss():
        return (model(images) * mixture).sum()

    found = torch.autograd.grad(loss(), learning, allow_unused=True)
    slope = sum(float((one * way).sum()) for one, way in zip(found, ways, strict=True) if one is not None)
    seen, step = [], 1e-7
    with torch.no_grad():
        for by in (step, -2 * step):
            for one, way in zip(learning, ways, strict=True):
                one.add_(way, alpha=by)
            seen.append(float(loss()))
    return slope, (seen[0] - seen[1]) / (2 * step)


def is_loaded(model, images, folder):
    """Whether a model that was saved answers as before."""
    file = folder / "model.safetensors"
    family, config = describe(model)
    save_model(model, file, Card(task="", model=family, family=family, config=config))
    other, _ = load_model(file, Card)
    assert other.config == model.config
    with torch.no_grad():
        return torch.equal(other(images), model.eval()(images))


@torch.no_grad()
def by_onnx(model, images, *others):
    """The largest difference between a model and its graph, exported once for images of any size and number, on other
    images than those that it was exported with.
    """
    multiple, names = model.multiple, ("batch", "height", "width")
    batch, height, width = (torch.export.Dim(name, min=1, max=64) for name in names)
    sizes = {0: batch, 2: multiple * height, 3: multiple * width}
    with quiet():
        program = torch.onnx.export(model, (images,), dynamic_shapes=(sizes,), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    name = session.get_inputs()[0].name
    apart = 0.0
    for one in others:
        (logits,) = session.run(None, {name: one.numpy()})
        mine = model(one)
        assert mine.std() > 1e-2, "what hardly differs proves nothing"
        apart = max(apart, float((torch.from_numpy(logits) - mine).abs().max()))
    return apart


def is_small(name):
    """Whether a micro build has at most so many parameters, for a background and 15 kinds of findings."""
    with torch.device("meta"):
        model = create(name, classes=16)
    return sum(one.numel() for one in model.parameters()) <= MOST
