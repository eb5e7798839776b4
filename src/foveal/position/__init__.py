"""Where a token is: added to the input, rotated into q and k, or a term on the scores.

One file per way, found by its file.
"""

from foveal.lazy import door

__getattr__, __dir__ = door(__name__, "position")
