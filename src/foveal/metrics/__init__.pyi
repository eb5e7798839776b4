# Written by `make stubs`.
from foveal.metrics import bleu as bleu
from foveal.metrics import calibration as calibration
from foveal.metrics import classification as classification
from foveal.metrics import difference as difference
from foveal.metrics import findings as findings
from foveal.metrics import importance as importance
from foveal.metrics import interval as interval
from foveal.metrics import ranking as ranking
from foveal.metrics import segmentation as segmentation
from foveal.metrics import thin as thin
from foveal.metrics import threshold as threshold

__all__ = [
    "bleu",
    "calibration",
    "classification",
    "difference",
    "findings",
    "importance",
    "interval",
    "ranking",
    "segmentation",
    "thin",
    "threshold",
]
