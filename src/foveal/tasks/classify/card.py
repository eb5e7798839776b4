"""What a classifier's file says beside what every image model says: several labels or one,
and how logits become an answer.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from foveal.errors import expect, is_number, short_repr
from foveal.runtime.card import ImageCard

# Words of cards that were written before `format: 1`: of the card, and of its recipe.
OLD_CARD = {"many": "multi_label"}
OLD_DATA = {"many": "multi_label", "pictures": "images"}
OLD_RECIPE = {
    "settings": "config", "start": "init_from", "truth": "label_weight", "decay": "weight_decay",
    "smoothing": "label_smoothing", "keep": "checkpoint", "by": "fold_column", "backbone": "backbone_lr",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ClassifyCard(ImageCard):
    task: str = "classify"
    multi_label: bool = False  # several classes may hold for one image
    threshold: tuple[float, ...] | None = (
        None  # multi_label: one per class; two classes: one, on the second; None: 0.5, or the largest
    )
    temperature: float = 1.0  # probabilities = softmax or sigmoid of logits / temperature

    tuples: ClassVar[tuple[str, ...]] = (*ImageCard.tuples, "threshold")
    paths: ClassVar[tuple[str, ...]] = (*ImageCard.paths, "teachers", "teacher_recipe")

    @classmethod
    def upgraded(cls, facts: dict[str, Any]) -> dict[str, Any]:
        facts = {OLD_CARD.get(key, key): value for key, value in facts.items()}
        facts.setdefault("task", "classify")
        if isinstance(facts.get("recipe"), dict):
            facts["recipe"] = {OLD_RECIPE.get(key, key): value for key, value in facts["recipe"].items()}
        if isinstance(facts.get("data"), dict):
            facts["data"] = _renamed(facts["data"], OLD_DATA)
        return facts

    def check(self, where: str) -> None:
        super().check(where)
        count, several = len(self.classes), self.multi_label
        expect(isinstance(several, bool), where, "a card whose multi_label is true or false", short_repr(several))
        warm = is_number(self.temperature) and 1e-6 < self.temperature < math.inf
        expect(warm, where, "a temperature above 0", short_repr(self.temperature))
        if self.threshold is not None:
            wanted = count if several else 1
            fits = isinstance(self.threshold, tuple) and len(self.threshold) == wanted and (several or count == 2)
            fits = fits and all(is_number(one) and 0 <= one <= 1 for one in self.threshold)
            words = f"{wanted} thresholds from 0 to 1" if several else "a threshold from 0 to 1 of two classes, or none"
            expect(fits, where, words, short_repr(self.threshold))


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """The same facts with other keys, at every depth but below names of classes."""
    if not isinstance(value, dict):
        return value
    return {names.get(key, key): one if key == "classes" else _renamed(one, names) for key, one in value.items()}
