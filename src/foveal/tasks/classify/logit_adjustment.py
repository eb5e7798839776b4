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


def adjust_logits(model: nn.Module, shift: Tensor) -> None:
    """Add shift (C,) to the logits, in the bias of the layer that makes them."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    fits = bool(layers) and layers[-1].out_features == len(shift) and layers[-1].bias is not None
    expect(
        fits,
        "--margin",
        "a model whose last layer has a bias for each class",
        type(model).__name__,
        "choose --margin 1",
    )
    with torch.no_grad():
        layers[-1].bias.add_(shift.to(layers[-1].bias))
