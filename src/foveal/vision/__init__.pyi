# Written by `make stubs`.
from foveal.vision.dynamic_mixture import DynamicMixture as DynamicMixture
from foveal.vision.non_local import Concatenation as Concatenation
from foveal.vision.non_local import DotProduct as DotProduct
from foveal.vision.non_local import EmbeddedGaussian as EmbeddedGaussian
from foveal.vision.non_local import Gaussian as Gaussian
from foveal.vision.non_local import NonLocal as NonLocal
from foveal.vision.space_time import SpaceTime as SpaceTime
from foveal.vision.squeeze_excitation import SqueezeExcitation as SqueezeExcitation
from foveal.vision.temporal import TemporalAttention as TemporalAttention

__all__ = [
    "Concatenation",
    "DotProduct",
    "DynamicMixture",
    "EmbeddedGaussian",
    "Gaussian",
    "NonLocal",
    "SpaceTime",
    "SqueezeExcitation",
    "TemporalAttention",
]
