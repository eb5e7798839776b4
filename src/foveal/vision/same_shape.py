"""Modules of this folder that take one map (B, C, h, w) and give one of the same shape, by name: what can be put behind
any map of a CNN.

    y = same_shape("CBAM", C)(x)

Names are those of `foveal.vision`; of the non-local block each form is one, `NonLocal:gaussian`. All have the defaults
of their papers: at few channels a squeeze to C/16 leaves one or two.
What cannot stand there: AttentionGate, which asks for a second, coarser map as its signal; TemporalAttention and
    SpaceTime, which look along the frames of a video; the forms of NonLocal, which are parts of it.
Departs from the papers: DynamicMixture is a 3×3 convolution of its own behind the map, with no BatchNorm and no
    activation after it, where the paper replaces those that a network has.
"""

from collections.abc import Callable
from functools import partial

from torch import nn

from foveal.errors import unknown
from foveal.vision.cbam import CBAM, ChannelAttention
from foveal.vision.coordinate import CoordinateAttention
from foveal.vision.dynamic_mixture import DynamicMixture
from foveal.vision.eca import EfficientChannelAttention
from foveal.vision.non_local import FORMS, NonLocal
from foveal.vision.selective_kernel import SelectiveKernel
from foveal.vision.spatial import SpatialAttention
from foveal.vision.squeeze_excitation import SqueezeExcitation

# name → what makes the module for so many channels
SAME_SHAPE: dict[str, Callable[[int], nn.Module]] = {
    "SqueezeExcitation": SqueezeExcitation,
    "EfficientChannelAttention": EfficientChannelAttention,
    "ChannelAttention": ChannelAttention,
    "SpatialAttention": lambda width: SpatialAttention(),
    "CBAM": CBAM,
    "CoordinateAttention": CoordinateAttention,
    "SelectiveKernel": SelectiveKernel,
    **{f"NonLocal:{form}": partial(NonLocal, form=form) for form in FORMS},
    "DynamicMixture": lambda width: DynamicMixture(width, width, 3, padding=1),
}


def same_shape(name: str, width: int) -> nn.Module:
    """The module of this name, for maps of so many channels."""
    if not isinstance(name, str) or name not in SAME_SHAPE:
        raise unknown("module on one feature map", str(name), SAME_SHAPE)
    return SAME_SHAPE[name](width)
