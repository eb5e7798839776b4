"""After training, rare classes are taken as more frequent than they were.

    ℓ_k ← ℓ_k − (τ − 1) log π_k

Symbols: ℓ the logits, π_k the share of class k in the training split (of several labels: its odds), τ the option
    margin. A model that was trained with balance "margin" answers as if all classes were equally frequent (τ = 1); one
    that has learned all its images still leans towards what it saw most, and a larger τ undoes that. The shift becomes
    part of the last layer's bias, so that a file that is exported needs to know nothing of it.
Paper: Aditya Krishna Menon et al. (2021). Long-tail learning via logit adjustment. ICLR. arXiv:2007.07314, equation 9.
"""

import torch
from torch import Tensor, nn

from foveal.errors import expect
from foveal.models.icam import Icam


def adjust_logits(model: nn.Module, shift: Tensor) -> None:
    """Add shift (C,) to the logits, in the bias of the layer that makes them."""
    last = last_layer(model)
    fits = last is not None and last.out_features == len(shift) and last.bias is not None
    expect(
        fits,
        "--margin",
        "a model whose last layer has a bias for each class",
        type(model).__name__,
        "choose --margin 1",
    )
    assert last is not None
    with torch.no_grad():
        last.bias.add_(shift.to(last.bias))


def last_layer(model: nn.Module) -> nn.Linear | None:
    """The layer that makes the logits: of an Icam its head's, of others the last that they have."""
    within = model.head if isinstance(model, Icam) else model
    return next((layer for layer in reversed(list(within.modules())) if isinstance(layer, nn.Linear)), None)
