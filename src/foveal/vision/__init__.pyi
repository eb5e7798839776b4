# Written by `make stubs`.
from foveal.vision.attention_gate import AttentionGate as AttentionGate
from foveal.vision.cbam import CBAM as CBAM
from foveal.vision.cbam import ChannelAttention as ChannelAttention
from foveal.vision.coordinate import CoordinateAttention as CoordinateAttention
from foveal.vision.eca import EfficientChannelAttention as EfficientChannelAttention
from foveal.vision.selective_kernel import SelectiveKernel as SelectiveKernel
from foveal.vision.spatial import SpatialAttention as SpatialAttention
from foveal.vision.squeeze_excitation import SqueezeExcitation as SqueezeExcitation

__all__ = [
    "CBAM",
    "AttentionGate",
    "ChannelAttention",
    "CoordinateAttention",
    "EfficientChannelAttention",
    "SelectiveKernel",
    "SpatialAttention",
    "SqueezeExcitation",
]
