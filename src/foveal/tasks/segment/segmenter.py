"""Which segmenter works: onnxruntime for an exported file, torch for a model of torch's.

Torch is imported for the latter only.
"""

from typing import TYPE_CHECKING, cast

from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.options import PredictOptions
from foveal.tasks.segment.predict import OnnxSegmenter, Segmenter
from foveal.tasks.segment.session import SegmentSession

if TYPE_CHECKING:
    from foveal.tasks.model import Model


def segmenter_of(model: "Model", options: PredictOptions) -> Segmenter:
    card = cast("SegmentCard", model.card)
    if model.is_exported:
        return OnnxSegmenter(SegmentSession(model.exported, card), options)
    from foveal.tasks.segment.predict_torch import TorchSegmenter

    return TorchSegmenter(model.network, card, options, model.device)
