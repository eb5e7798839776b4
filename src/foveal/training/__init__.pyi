# Written by `make stubs`.
from foveal.training import average as average
from foveal.training import beginning as beginning
from foveal.training import cuda_graph as cuda_graph
from foveal.training import diverged as diverged
from foveal.training import gather as gather
from foveal.training import harness as harness
from foveal.training import journal as journal
from foveal.training import module as module
from foveal.training import recipe as recipe
from foveal.training import recompute as recompute
from foveal.training import rehearsal as rehearsal
from foveal.training import run_folder as run_folder
from foveal.training import schedule as schedule
from foveal.training import stages as stages
from foveal.training import surroundings as surroundings
from foveal.training import sweep as sweep
from foveal.training import taught as taught
from foveal.training import tensorboard as tensorboard

__all__ = [
    "average",
    "beginning",
    "cuda_graph",
    "diverged",
    "gather",
    "harness",
    "journal",
    "module",
    "recipe",
    "recompute",
    "rehearsal",
    "run_folder",
    "schedule",
    "stages",
    "surroundings",
    "sweep",
    "taught",
    "tensorboard",
]
