# Written by `make stubs`.
from foveal.report import bench as bench
from foveal.report import catalogue as catalogue
from foveal.report import confusion as confusion
from foveal.report import figure as figure
from foveal.report import means as means
from foveal.report import mechanism_picture as mechanism_picture
from foveal.report import overlay as overlay
from foveal.report import page as page
from foveal.report import paper as paper
from foveal.report import picture as picture
from foveal.report import plot as plot
from foveal.report import progress as progress
from foveal.report import report_files as report_files
from foveal.report import table as table
from foveal.report import text_matrix as text_matrix

__all__ = [
    "bench",
    "catalogue",
    "confusion",
    "figure",
    "means",
    "mechanism_picture",
    "overlay",
    "page",
    "paper",
    "picture",
    "plot",
    "progress",
    "report_files",
    "table",
    "text_matrix",
]
