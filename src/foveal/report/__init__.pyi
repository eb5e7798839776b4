# Written by `make stubs`.
from foveal.report import bench as bench
from foveal.report import catalogue as catalogue
from foveal.report import mechanism_picture as mechanism_picture
from foveal.report import overlay as overlay
from foveal.report import paper as paper
from foveal.report import picture as picture
from foveal.report import plot as plot
from foveal.report import progress as progress
from foveal.report import table as table
from foveal.report import text_matrix as text_matrix

__all__ = [
    "bench",
    "catalogue",
    "mechanism_picture",
    "overlay",
    "paper",
    "picture",
    "plot",
    "progress",
    "table",
    "text_matrix",
]
