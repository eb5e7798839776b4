"""How much a head matters: by the gradient of its weights, and by what the loss becomes without it.

    by gradient   I_h = E_x Σ_(w of h) |∂L/∂w · w|          by masking   I_h = E_x [L without h] − E_x [L]

Symbols: x a sample, L its loss; w of h the rows of W_Q, W_K and W_V and the columns of W_O that belong to head h.
Heads that share keys and values each count them. Papers: Paul Michel, Omer Levy, Graham Neubig (2019). Are sixteen
heads really better than one? NeurIPS. arXiv:1905.10650. Pavlo Molchanov et al. (2019). Importance estimation for
neural network pruning. CVPR. arXiv:1906.10771. Departs from the papers: the gradient is that of weights, sample by
sample, where Michel et al. take that of a head's output.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from foveal.errors import expect, is_integer, short_repr
from foveal.models.heads import head_layers, weights_of, without_heads

Loss = Callable[[Any, Any], Tensor]  # a model and one batch, of whatever kind → one number, the mean over the batch


def importance_by_gradient(model: nn.Module, batches: Sequence[Any], loss: Loss) -> list[Tensor]:
    """One tensor (H,) for each multi-head layer: the mean over the batches,
    of one sample each where the equation is meant to the letter.
    """
    layers = head_layers(model)
    found = [torch.zeros(layer.heads, dtype=torch.float64) for layer in layers]
    heads = [(layer, head) for layer in layers for head in range(layer.heads)]
    weights = list(dict.fromkeys(weight for layer, head in heads for weight, _ in weights_of(layer, head)))
    needed = [weight.requires_grad for weight in weights]
    training = {module: module.training for module in model.modules()}
    try:
        for weight in weights:
            weight.requires_grad_(True)
        model.eval()
        for batch in batches:
            with torch.enable_grad():
                slopes = torch.autograd.grad(loss(model, batch), weights)
            by_weight = {weight: (slope * weight.detach()).abs() for weight, slope in zip(weights, slopes, strict=True)}
            for layer, each in zip(layers, found, strict=True):
                for head in range(layer.heads):
                    each[head] += sum(
                        by_weight[weight][part].sum().double().cpu() for weight, part in weights_of(layer, head)
                    ) / len(batches)
    finally:
        for weight, before in zip(weights, needed, strict=True):
            weight.requires_grad_(before)
        for module, mode in training.items():
            module.training = mode
    return found


def importance_by_masking(model: nn.Module, batches: Sequence[Any], loss: Loss) -> list[Tensor]:
    """One tensor (H,) for each multi-head layer: how much the mean loss grows where one head gives 0.

    Below 0, it does harm.
    """
    layers = head_layers(model)
    training = {module: module.training for module in model.modules()}
    model.eval()

    @torch.no_grad()
    def mean() -> float:
        return sum(float(loss(model, batch)) for batch in batches) / len(batches)

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
    wanted = f"1 to {spare}, so that one is left in each layer" if spare else "a layer with several"
    expect(fits, "how many heads to remove", wanted, short_repr(count))
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
