"""What a segmenter finds in images, computed by torch."""

import torch
from torch import Tensor, nn

from foveal.device import choose
from foveal.errors import expect
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.graph import Maps
from foveal.tasks.segment.options import PredictOptions
from foveal.tasks.segment.predict import Bytes, Floats, Segmenter


class TorchSegmenter(Segmenter):
    def __init__(self, model: nn.Module, card: SegmentCard, options: PredictOptions, device: str = "auto") -> None:
        super().__init__(card, options)
        self.device = choose(device)
        self.graph = Maps(model.to(self.device).eval(), card).to(self.device).eval()

    @torch.inference_mode()
    def seen(self, frames: Bytes) -> tuple[Bytes, Floats]:
        label_maps, scores, *_ = self.graph(torch.from_numpy(frames).to(self.device))
        self._check(scores)
        return label_maps.cpu().numpy(), scores.float().cpu().numpy()

    @torch.inference_mode()
    def logits(self, frames: Bytes) -> Floats:
        logits = self.graph.small_logits(torch.from_numpy(frames).to(self.device))
        self._check(logits)
        return logits.float().cpu().numpy()

    def _check(self, answer: Tensor) -> None:
        classes = len(self.card.classes)
        expect(answer.shape[1] == classes, f"{self.card.model}'s answer", f"{classes} classes", answer.shape[1])
