"""The scores: `from foveal.score import additive, dot`.

They live in core/score/, one file each, and are found by their file.
"""

from foveal.lazy import door_by_file

__getattr__, __dir__ = door_by_file(__name__, "foveal.core.score", "score")
