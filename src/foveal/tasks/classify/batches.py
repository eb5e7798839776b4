"""Samples that the importance of heads is measured on: validation images,
or rendered ones with the model's own answers for labels.
"""

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.export import proof_images
from foveal.tasks.classify.predict_torch import TorchClassifier
from foveal.tasks.task import LabelledBatches

if TYPE_CHECKING:
    from foveal.tasks.model import Model


def labelled_batches(model: "Model", count: int) -> LabelledBatches:
    """(image (1, 3, S, S), label) each: one image per batch, as the importance by gradient wants it."""
    card = cast("ClassifyCard", model.card)
    found, classifier = proof_images(card), TorchClassifier(model.network, card, model.device)
    images = classifier.prepare(list(found.frames[:count]))
    own = torch.from_numpy(classifier.logits_of(images))
    answers = (own > 0).float() if card.multi_label else own.argmax(1)
    labels = (answers if found.labels is None else torch.from_numpy(found.labels[:count])).to(images.device)

    def loss(network: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
        logits = network(batch[0])
        if card.multi_label:
            return F.binary_cross_entropy_with_logits(logits, batch[1].to(logits.dtype))
        return F.cross_entropy(logits, batch[1])

    pairs = list(zip(images.split(1), labels.split(1), strict=True))
    return LabelledBatches(pairs, loss, f"{len(images)} of {found.words}")
