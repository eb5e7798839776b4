# Written by `make stubs`.
from foveal.deploy import measure as measure
from foveal.deploy import onnx as onnx
from foveal.deploy import prune as prune
from foveal.deploy import prune_module as prune_module
from foveal.deploy import prune_way as prune_way
from foveal.deploy import twins as twins

__all__ = [
    "measure",
    "onnx",
    "prune",
    "prune_module",
    "prune_way",
    "twins",
]
