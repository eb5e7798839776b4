# Written by `make stubs`.
from foveal.losses import assignment as assignment
from foveal.losses import boundary as boundary
from foveal.losses import classification as classification
from foveal.losses import hints as hints
from foveal.losses import presence as presence
from foveal.losses import segmentation as segmentation
from foveal.losses import set_prediction as set_prediction
from foveal.losses import token_loss as token_loss
from foveal.losses import topology as topology

__all__ = [
    "assignment",
    "boundary",
    "classification",
    "hints",
    "presence",
    "segmentation",
    "set_prediction",
    "token_loss",
    "topology",
]
