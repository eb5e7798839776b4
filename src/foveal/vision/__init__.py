"""Attention on feature maps (B, C, h, w): one file per mechanism, found by its file, as `foveal.vision.CBAM`."""

from foveal.lazy import door

__getattr__, __dir__ = door(__name__, "module on feature maps")
