"""The graph of a segmenter with fewer operations, as it is exported: tasks/segment/graph.py, without what a label map
does not need. Its twins say the same but for rounding: deploy/twins/label_map.py and deploy/twins/lean_icam_seg.py.
"""

import copy

import torch
from torch import Tensor, nn

from foveal.deploy.twins.byte_stem import RUN
from foveal.deploy.twins.label_map import LabelMap
from foveal.deploy.twins.lean_icam_seg import LeanIcamSeg
from foveal.models.icam_seg import IcamSeg
from foveal.models.image_model import fold_batch_norms
from foveal.models.mbconv import Stages
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.graph import Maps


class ByteMaps(Maps):
    """Whose model takes bytes: for int8."""

    def answered(self, frames: Tensor) -> Tensor:
        height, width = frames.shape[1:3]
        down = (height + self.multiple - 1) // self.multiple * self.multiple - height
        along = (width + self.multiple - 1) // self.multiple * self.multiple - width
        frames = torch.cat([frames, frames[:, -1:].expand(-1, down, -1, -1)], 1)
        frames = torch.cat([frames, frames[:, :, -1:].expand(-1, -1, along, -1)], 2)
        logits: Tensor = self.model(frames)
        return logits


def lean_maps(model: nn.Module, card: SegmentCard, probabilities: bool = False, bytes_: bool = False) -> Maps:
    """Of a model in evaluation mode, which is left as it is. bytes_: its stem reads them as they come, where it can."""
    own = isinstance(model, IcamSeg) and isinstance(model.phi, Stages)
    lean = LeanIcamSeg(model, card) if own else fold_batch_norms(copy.deepcopy(model))  # type: ignore[arg-type]
    reads = bytes_ and isinstance(lean, LeanIcamSeg) and card.zoom == 1 and card.multiple % RUN == 0
    maps = (ByteMaps if reads else Maps)(lean, card, probabilities)
    if isinstance(lean, LeanIcamSeg):
        maps.std = None  # in the stem's weights
        if reads:
            lean.read_bytes(card)
    if not probabilities and maps.times > 1 and maps.times % 2 == 0:
        maps.labels = LabelMap(int(maps.times))
    return maps.eval().requires_grad_(False)
