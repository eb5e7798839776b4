"""Attention on feature maps (B, C, h, w). One file per mechanism; `foveal.vision.SqueezeExcitation` is found by its file."""

from foveal.lazy import door

__getattr__, __dir__, __all__ = door(__name__, "module on feature maps")
