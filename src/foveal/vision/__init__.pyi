# Written by `make stubs`.
from foveal.vision.attention_gate import AttentionGate as AttentionGate
from foveal.vision.cbam import CBAM as CBAM
from foveal.vision.cbam import ChannelAttention as ChannelAttention
from foveal.vision.coordinate import CoordinateAttention as CoordinateAttention
from foveal.vision.dynamic_mixture import DynamicMixture as DynamicMixture
from foveal.vision.eca import EfficientChannelAttention as EfficientChannelAttention
from foveal.vision.non_local import Concatenation as Concatenation
from foveal.vision.non_local import DotProduct as DotProduct
from foveal.vision.non_local import EmbeddedGaussian as EmbeddedGaussian
from foveal.vision.non_local import Gaussian as Gaussian
from foveal.vision.non_local import NonLocal as NonLocal
from foveal.vision.selective_kernel import SelectiveKernel as SelectiveKernel
from foveal.vision.space_time import SpaceTime as SpaceTime
from foveal.vision.spatial import SpatialAttention as SpatialAttention
from foveal.vision.squeeze_excitation import SqueezeExcitation as SqueezeExcitation
from foveal.vision.temporal import TemporalAttention as TemporalAttention

__all__ = [
    "CBAM",
    "AttentionGate",
    "ChannelAttention",
    "Concatenation",
    "CoordinateAttention",
    "DotProduct",
    "DynamicMixture",
    "EfficientChannelAttention",
    "EmbeddedGaussian",
    "Gaussian",
    "NonLocal",
    "SelectiveKernel",
    "SpaceTime",
    "SpatialAttention",
    "SqueezeExcitation",
    "TemporalAttention",
]
