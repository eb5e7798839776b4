"""Which classifier works: onnxruntime for an exported file, torch for a model of torch's.

Torch is imported for the latter only.
"""

from typing import TYPE_CHECKING, cast

from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.predict import Classifier, OnnxClassifier
from foveal.tasks.classify.session import ClassifySession

if TYPE_CHECKING:
    from foveal.tasks.model import Model


def classifier_of(model: "Model", batch: int = 16, threshold: float | None = None) -> Classifier:
    card = cast("ClassifyCard", model.card)
    if model.is_exported:
        return OnnxClassifier(ClassifySession(model.exported, card), batch, threshold)
    from foveal.tasks.classify.predict_torch import TorchClassifier

    return TorchClassifier(model.network, card, model.device, batch, threshold)
