# Written by `make stubs`.
from foveal.core import algebra as algebra
from foveal.core import attend as attend
from foveal.core import blockwise as blockwise
from foveal.core import flex as flex
from foveal.core import keep_alive as keep_alive
from foveal.core import kernel as kernel
from foveal.core import linear as linear
from foveal.core import mask as mask
from foveal.core import notebook as notebook
from foveal.core import observe as observe
from foveal.core import pattern as pattern
from foveal.core import relative as relative
from foveal.core import request as request
from foveal.core import score as score
from foveal.core import term as term
from foveal.core import tile as tile
from foveal.core import trace as trace
from foveal.core import watch as watch
from foveal.core import watch_foreign as watch_foreign

__all__ = [
    "algebra",
    "attend",
    "blockwise",
    "flex",
    "keep_alive",
    "kernel",
    "linear",
    "mask",
    "notebook",
    "observe",
    "pattern",
    "relative",
    "request",
    "score",
    "term",
    "tile",
    "trace",
    "watch",
    "watch_foreign",
]
