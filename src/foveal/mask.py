"""The masks: `from foveal.mask import causal, local`.

They live in core/pattern/, one file each, and are found by their file.
"""

from foveal.lazy import door_by_file

__getattr__, __dir__ = door_by_file(__name__, "foveal.core.pattern", "mask", Mask="foveal.core.mask")
