# Written by `make stubs`.
from foveal.losses import classification as classification
from foveal.losses import hints as hints
from foveal.losses import token_loss as token_loss

__all__ = [
    "classification",
    "hints",
    "token_loss",
]
