# Written by `make stubs`.
from foveal.data import annotated as annotated
from foveal.data import annotated_maps as annotated_maps
from foveal.data import annotations as annotations
from foveal.data import augment as augment
from foveal.data import batches as batches
from foveal.data import class_folders as class_folders
from foveal.data import class_names as class_names
from foveal.data import class_table as class_table
from foveal.data import direction as direction
from foveal.data import divide as divide
from foveal.data import divided as divided
from foveal.data import division as division
from foveal.data import filter_pairs as filter_pairs
from foveal.data import folds as folds
from foveal.data import formats as formats
from foveal.data import grammar as grammar
from foveal.data import image_input as image_input
from foveal.data import label_maps as label_maps
from foveal.data import map_pairs as map_pairs
from foveal.data import measured as measured
from foveal.data import name_sketch as name_sketch
from foveal.data import near_duplicates as near_duplicates
from foveal.data import opened as opened
from foveal.data import order as order
from foveal.data import outline as outline
from foveal.data import pack as pack
from foveal.data import packed_maps as packed_maps
from foveal.data import parallel as parallel
from foveal.data import parallel_files as parallel_files
from foveal.data import paste as paste
from foveal.data import pipes as pipes
from foveal.data import read as read
from foveal.data import read_any as read_any
from foveal.data import read_label_maps as read_label_maps
from foveal.data import rendered as rendered
from foveal.data import run_lengths as run_lengths
from foveal.data import segments as segments
from foveal.data import shift as shift
from foveal.data import source as source
from foveal.data import splits as splits
from foveal.data import table as table
from foveal.data import token_batches as token_batches
from foveal.data import windows as windows
from foveal.data import write_annotated as write_annotated

__all__ = [
    "annotated",
    "annotated_maps",
    "annotations",
    "augment",
    "batches",
    "class_folders",
    "class_names",
    "class_table",
    "direction",
    "divide",
    "divided",
    "division",
    "filter_pairs",
    "folds",
    "formats",
    "grammar",
    "image_input",
    "label_maps",
    "map_pairs",
    "measured",
    "name_sketch",
    "near_duplicates",
    "opened",
    "order",
    "outline",
    "pack",
    "packed_maps",
    "parallel",
    "parallel_files",
    "paste",
    "pipes",
    "read",
    "read_any",
    "read_label_maps",
    "rendered",
    "run_lengths",
    "segments",
    "shift",
    "source",
    "splits",
    "table",
    "token_batches",
    "windows",
    "write_annotated",
]
