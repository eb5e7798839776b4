# Written by `make stubs`.
from foveal.vision.eca import EfficientChannelAttention as EfficientChannelAttention
from foveal.vision.squeeze_excitation import SqueezeExcitation as SqueezeExcitation

__all__ = [
    "EfficientChannelAttention",
    "SqueezeExcitation",
]
