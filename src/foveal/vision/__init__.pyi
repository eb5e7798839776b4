# Written by `make stubs`.
from foveal.vision.cbam import CBAM as CBAM
from foveal.vision.cbam import ChannelAttention as ChannelAttention
from foveal.vision.coordinate import CoordinateAttention as CoordinateAttention
from foveal.vision.eca import EfficientChannelAttention as EfficientChannelAttention
from foveal.vision.spatial import SpatialAttention as SpatialAttention
from foveal.vision.squeeze_excitation import SqueezeExcitation as SqueezeExcitation

__all__ = [
    "CBAM",
    "ChannelAttention",
    "CoordinateAttention",
    "EfficientChannelAttention",
    "SpatialAttention",
    "SqueezeExcitation",
]
