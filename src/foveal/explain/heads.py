"""How much a head matters: by the gradient of its weights, and by what the loss becomes without it.

    by gradient   I_h = E_x Σ_(w of h) |∂L/∂w · w|          by masking   I_h = E_x [L without h] − E_x [L]

Symbols: x an image, L its loss; w of h the rows of W_Q, W_K and W_V and the columns of W_O that belong to head h. Heads that share keys and values
each count them.
Papers: Paul Michel, Omer Levy, Graham Neubig (2019). Are sixteen heads really better than one? NeurIPS. arXiv:1905.10650. Pavlo Molchanov et al.
(2019). Importance estimation for neural network pruning. CVPR. arXiv:1906.10771.
Departs from the papers: the gradient is that of weights, image by image, where Michel et al. take that of a head's output.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.errors import expect, is_integer, short_repr
from foveal.layers.multihead import MultiHead
from foveal.models.heads import head_layers, without_heads

Loss = Callable[[Tensor, Tensor], Tensor]  # logits (B, C) and what is true of them → one number, the mean


def loss_of(multi_label: bool) -> Loss:
    """Cross-entropy; of several labels an image, that of each class."""
    return (lambda logits, truth: F.binary_cross_entropy_with_logits(logits, truth.to(logits.dtype))) if multi_label else F.cross_entropy


def importance_by_gradient(model: nn.Module, images: Tensor, truth: Tensor, loss: Loss = F.cross_entropy) -> list[Tensor]:
    """One tensor (H,) for each multi-head layer, from normalised images (B, 3, h, w) and their labels."""
    layers = head_layers(model)
    found = [torch.zeros(layer.heads, dtype=torch.float64) for layer in layers]
    weights = list(dict.fromkeys(weight for layer in layers for head in range(layer.heads) for weight, _ in _of(layer, head)))
    needed = [weight.requires_grad for weight in weights]
    training = {module: module.training for module in model.modules()}
    try:
        for weight in weights:
            weight.requires_grad_(True)
        model.eval()
        for image, true in zip(images.split(1), truth.split(1), strict=True):
            with torch.enable_grad():
                slopes = torch.autograd.grad(loss(model(image), true), weights)
            by_weight = {weight: (slope * weight.detach()).abs() for weight, slope in zip(weights, slopes, strict=True)}
            for layer, each in zip(layers, found, strict=True):
                for head in range(layer.heads):
                    each[head] += sum(by_weight[weight][part].sum().double().cpu() for weight, part in _of(layer, head)) / len(images)
    finally:
        for weight, before in zip(weights, needed, strict=True):
            weight.requires_grad_(before)
        for module, mode in training.items():
            module.training = mode
    return found


def importance_by_masking(model: nn.Module, images: Tensor, truth: Tensor, loss: Loss = F.cross_entropy, batch: int = 32) -> list[Tensor]:
    """One tensor (H,) for each multi-head layer: how much the mean loss grows where one head gives 0. Below 0, it does harm."""
    layers = head_layers(model)
    training = {module: module.training for module in model.modules()}
    model.eval()

    @torch.no_grad()
    def mean() -> float:
        pairs = zip(images.split(batch), truth.split(batch), strict=True)
        return sum(float(loss(model(some), true)) * len(some) for some, true in pairs) / len(images)

    try:
        whole = mean()
        found = []
        for place, layer in enumerate(layers):
            losses = []
            for head in range(layer.heads):
                with without_heads(model, {place: [head]}):
                    losses.append(mean())
            found.append(torch.tensor(losses, dtype=torch.float64) - whole)
    finally:
        for module, mode in training.items():
            module.training = mode
    return found


def least(importance: list[Tensor], count: int) -> dict[int, list[int]]:
    """The `count` heads that matter least, layer → heads; every layer keeps the one that matters most in it."""
    spare = sum(len(layer) - 1 for layer in importance)
    fits = is_integer(count) and 1 <= count <= spare
    expect(
        fits,
        "how many heads to remove",
        f"1 to {spare}, so that one is left in each layer" if spare else "a layer with several",
        short_repr(count),
    )
    ranked = sorted(
        (float(value), place, head)
        for place, layer in enumerate(importance)
        for head, value in enumerate(layer)
        if head != int(layer.argmax())
    )
    chosen: dict[int, list[int]] = {}
    for _, place, head in ranked[:count]:
        chosen.setdefault(place, []).append(head)
    return chosen


def _of(layer: MultiHead, head: int) -> list[tuple[Tensor, tuple[slice, ...]]]:
    """The weights of one head: each with the part that is its own."""
    width, heads, groups = layer.head_width, layer.heads, layer.groups
    group = head // (heads // groups)

    def rows(block: int) -> tuple[slice, ...]:
        return (slice(block * width, (block + 1) * width),)

    inner: list[tuple[Tensor, tuple[slice, ...]]]
    if layer.qkv is not None:
        inner = [(layer.qkv.weight, rows(block)) for block in (head, heads + group, heads + groups + group)]
    else:
        inner = [(layer.q.weight, rows(head)), (layer.kv.weight, rows(group)), (layer.kv.weight, rows(groups + group))]
    return [*inner, (layer.out.weight, (slice(None), *rows(head)))]
