"""Pruning to a target: how near it comes, what it may not touch, and that the right channels go: copies that nobody reads."""

import dataclasses

import pytest
import torch
from torch import nn

import foveal.deploy.prune as source
from foveal.deploy.cost import flops, weights
from foveal.deploy.prune import _groups, _pruned, counter, prune
from foveal.errors import FovealError
from foveal.models.card import Card
from foveal.models.shrink import query_of
from foveal.models.store import describe, load_for, load_model, save_model, shapes_of
from foveal.models.zoo import create

pytest.importorskip("torch_pruning")
SIDE = 64
PEERS = ("resnet-18", "efficientnet-b0", "mobilenet-v2", "mobilevit-xxs", "deit-tiny")
NAMES = ("icam-31k", "icam-30k", *PEERS)
BUILDS = {name: (name, {}) for name in NAMES} | {
    "several queries": ("icam-31k", {"queries": 3, "layers": 1}),
    "two cells a patch": ("icam-31k", {"pool": 2, "position": "polar", "first": "static"}),
    "another's Φ": ("icam-31k", {"phi": "resnet-18:1"}),
}


def built(name, **settings):
    if name in PEERS or "phi" in settings:
        pytest.importorskip("transformers")
    torch.manual_seed(0)
    image = {"image": SIDE} if name in PEERS else {"image": SIDE, "patch": 16}
    return create(name, classes=4, **image, **settings).eval()


def pictures(count=3):
    return torch.randn(count, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def icam():
    return built("icam-31k")


@pytest.mark.parametrize("unit", ["weights", "flops"])
@pytest.mark.parametrize("name", NAMES)
def test_the_target_is_met_from_below_and_the_classes_stay(name, unit, icam):
    model, cost = built(name), counter(unit, SIDE)
    target = cost(model) // 2 if name.startswith("icam") else cost(icam)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    pruned = prune(model, target, unit, "fpgm" if unit == "flops" else "l1", size=SIDE)
    assert 0.95 * target <= cost(pruned) <= target
    with torch.no_grad():
        assert pruned(pictures()).shape == (3, 4)
    assert all(torch.equal(before[key], tensor) for key, tensor in model.state_dict().items()), "the model itself is left alone"
    pruned.train()(pictures()).sum().backward()
    assert all(weight.grad is not None for weight in pruned.parameters()), "it can be trained"


def with_copies(model):
    """Every odd channel is a copy of the even one before it, and nobody reads it; of queries and keys it is 0, or scores would change."""
    silent = [part for module in model.modules() if query_of(module) is not None for part in (query_of(module), _keys(module))]
    final = [part for part in model.modules() if isinstance(part, nn.Linear)][-1]
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, nn.BatchNorm2d):
                for tensor in (part.weight, part.bias, part.running_mean, part.running_var):
                    tensor.uniform_(0.5, 1.5)
            for tensor in _out(part) if part is not final and not _kept(model, part) else ():
                tensor[1::2] = 0 if part in silent else tensor[::2][: len(tensor) // 2]
            if isinstance(part, (nn.Linear, nn.Conv2d)) and part.weight.shape[1] > 3 and not _reads_tokens(model, part):
                part.weight[:, 1::2] = 0
        for tensor in _loose(model):
            tensor[..., 1::2] = tensor[..., ::2]
    return model


def _keys(module):
    return getattr(module, "k_proj", None) or module.key


def _out(part):
    if isinstance(part, nn.BatchNorm2d):
        return [part.weight, part.bias, part.running_mean, part.running_var]
    if isinstance(part, (nn.Linear, nn.Conv2d, nn.LayerNorm)):
        return [part.weight, *([] if part.bias is None else [part.bias])]
    return []


def _kept(model, part):
    """The outputs of width C in an ICAM, which stay."""
    if not hasattr(model, "embed"):
        return False
    tokens = [model.embed, *model.first.modules(), *(one for layer in model.layers for one in layer.attention.modules())]
    tokens += [layer.feed_forward.layer.outer for layer in model.layers] + [layer.feed_forward.norm for layer in model.layers]
    return part in tokens or (part is model.out and model.config.queries > 1)


def _reads_tokens(model, part):
    if not hasattr(model, "embed"):
        return False
    tokens = [one for layer in model.layers for one in layer.attention.modules()] + [model.out]
    tokens += [layer.feed_forward.layer.inner for layer in model.layers]
    tokens += [getattr(model.first, name) for name in ("k", "v") if hasattr(model.first, name)]
    return part in tokens or (part is model.head[0] and model.config.queries > 1)


def _loose(model):
    """Parameters outside of layers whose last axis are channels that are read."""
    if hasattr(model, "first"):
        return [model.first.latent]
    return [tensor for name, tensor in model.named_parameters() if name.endswith(("cls_token", "position_embeddings"))]


@pytest.mark.parametrize("build", BUILDS)
@torch.no_grad()
def test_channels_that_are_copies_which_nobody_reads_go_and_nothing_changes(build, monkeypatch):
    monkeypatch.setattr(source, "_importance", lambda by: lambda group: 1.0 - torch.arange(len(group[0].idxs)) % 2)
    name, settings = BUILDS[build]
    model = with_copies(built(name, **settings)).double()
    groups = _groups(model.float(), SIDE)
    pruned = _pruned(model.float(), [size // 2 for _, size in groups], groups, SIDE, "l1")
    assert weights(pruned) < 0.8 * weights(model)
    images = pictures().double()
    torch.testing.assert_close(pruned.double()(images), model.double()(images), rtol=1e-6, atol=1e-7)
