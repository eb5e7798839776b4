# Written by `make stubs`.
from foveal.vision.space_time import SpaceTime as SpaceTime
from foveal.vision.squeeze_excitation import SqueezeExcitation as SqueezeExcitation
from foveal.vision.temporal import TemporalAttention as TemporalAttention

__all__ = [
    "SpaceTime",
    "SqueezeExcitation",
    "TemporalAttention",
]
