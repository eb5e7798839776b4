# Written by `make stubs`.
from foveal.vision.squeeze_excitation import SqueezeExcitation as SqueezeExcitation

__all__ = [
    "SqueezeExcitation",
]
