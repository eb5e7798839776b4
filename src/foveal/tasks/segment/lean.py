"""The graph of a segmenter with fewer operations, as it is exported: tasks/segment/graph.py, without what a label map
does not need. Its twins say the same but for rounding: deploy/twins/label_map.py and deploy/twins/lean_icam_seg.py.
"""

import copy

from torch import nn

from foveal.deploy.twins.label_map import LabelMap
from foveal.deploy.twins.lean_icam_seg import LeanIcamSeg
from foveal.models.icam_seg import IcamSeg
from foveal.models.image_model import fold_batch_norms
from foveal.models.mbconv import Stages
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.graph import Maps


def lean_maps(model: nn.Module, card: SegmentCard, probabilities: bool = False) -> Maps:
    """Of a model in evaluation mode, which is left as it is."""
    own = isinstance(model, IcamSeg) and isinstance(model.phi, Stages)
    lean = LeanIcamSeg(model, card) if own else fold_batch_norms(copy.deepcopy(model))  # type: ignore[arg-type]
    maps = Maps(lean, card, probabilities)
    if own:
        maps.std = None  # in the stem's weights
    if not probabilities and maps.times > 1 and maps.times % 2 == 0:
        maps.labels = LabelMap(int(maps.times))
    return maps.eval().requires_grad_(False)
