# Written by `make stubs`.
from foveal.metrics import bleu as bleu
from foveal.metrics import calibration as calibration
from foveal.metrics import classification as classification
from foveal.metrics import importance as importance
from foveal.metrics import interval as interval
from foveal.metrics import ranking as ranking
from foveal.metrics import threshold as threshold

__all__ = [
    "bleu",
    "calibration",
    "classification",
    "importance",
    "interval",
    "ranking",
    "threshold",
]
