# Written by `make stubs`.
from foveal.runtime import answers as answers
from foveal.runtime import blank as blank
from foveal.runtime import card as card
from foveal.runtime import components as components
from foveal.runtime import decode as decode
from foveal.runtime import distance as distance
from foveal.runtime import exported as exported
from foveal.runtime import image as image
from foveal.runtime import image_predictor as image_predictor
from foveal.runtime import onnx_names as onnx_names
from foveal.runtime import onnx_session as onnx_session
from foveal.runtime import packaged as packaged
from foveal.runtime import paths as paths
from foveal.runtime import saliency_maps as saliency_maps
from foveal.runtime import skeleton as skeleton
from foveal.runtime import vocabulary as vocabulary
from foveal.runtime.exported import Session as Session

__all__ = [
    "Session",
    "answers",
    "blank",
    "card",
    "components",
    "decode",
    "distance",
    "exported",
    "image",
    "image_predictor",
    "onnx_names",
    "onnx_session",
    "packaged",
    "paths",
    "saliency_maps",
    "skeleton",
    "vocabulary",
]
