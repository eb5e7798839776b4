"""What an exported model finds in pictures: the stream of `foveal predict` without torch."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from foveal.runtime.image import Pixels
from foveal.tasks.classify.predict import Array, Classifier
from foveal.tasks.classify.session import Session


class OnnxClassifier(Classifier):
    def __init__(self, session: Session, batch: int = 16, threshold: float | None = None) -> None:
        super().__init__(session.card, batch, threshold)
        self.session = session

    @classmethod
    def load(cls, file: str | Path, batch: int = 16, threshold: float | None = None, threads: int = 1) -> "OnnxClassifier":
        return cls(Session(file, threads), batch, threshold)

    def logits(self, pictures: Sequence[Pixels]) -> Array:
        said = self.session(np.stack(pictures), ["logits"])["logits"]
        return np.asarray(said, np.float64)
