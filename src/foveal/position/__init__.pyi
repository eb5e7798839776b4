# Written by `make stubs`.
from foveal.position.bias_table import BiasTable as BiasTable
from foveal.position.buckets import Buckets as Buckets
from foveal.position.buckets import CausalBuckets as CausalBuckets
from foveal.position.learned import Learned as Learned
from foveal.position.learned_2d import Learned2d as Learned2d
from foveal.position.polar import Polar as Polar
from foveal.position.position import Position as Position
from foveal.position.relative import Relative as Relative
from foveal.position.rotary import Rotary as Rotary
from foveal.position.sinusoidal import Sinusoidal as Sinusoidal
from foveal.position.sinusoidal_2d import Sinusoidal2d as Sinusoidal2d

__all__ = [
    "BiasTable",
    "Buckets",
    "CausalBuckets",
    "Learned",
    "Learned2d",
    "Polar",
    "Position",
    "Relative",
    "Rotary",
    "Sinusoidal",
    "Sinusoidal2d",
]
