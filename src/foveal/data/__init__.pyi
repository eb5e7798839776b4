# Written by `make stubs`.
from foveal.data import augment as augment
from foveal.data import batches as batches
from foveal.data import class_folders as class_folders
from foveal.data import divide as divide
from foveal.data import filter_pairs as filter_pairs
from foveal.data import folds as folds
from foveal.data import formats as formats
from foveal.data import grammar as grammar
from foveal.data import image_input as image_input
from foveal.data import name_sketch as name_sketch
from foveal.data import near_duplicates as near_duplicates
from foveal.data import order as order
from foveal.data import pack as pack
from foveal.data import parallel as parallel
from foveal.data import parallel_files as parallel_files
from foveal.data import pipes as pipes
from foveal.data import read as read
from foveal.data import rendered as rendered
from foveal.data import source as source
from foveal.data import splits as splits
from foveal.data import table as table
from foveal.data import token_batches as token_batches

__all__ = [
    "augment",
    "batches",
    "class_folders",
    "divide",
    "filter_pairs",
    "folds",
    "formats",
    "grammar",
    "image_input",
    "name_sketch",
    "near_duplicates",
    "order",
    "pack",
    "parallel",
    "parallel_files",
    "pipes",
    "read",
    "rendered",
    "source",
    "splits",
    "table",
    "token_batches",
]
