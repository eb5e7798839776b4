"""What a translator's file says beside what every model says: its vocabulary, so that one file is all there is to give away."""

from dataclasses import dataclass
from typing import Any

from foveal.errors import expect, short_repr
from foveal.runtime.card import Card

# Words of cards that were written before `format: 1`: of the recipe, and of the model's config.
OLD_RECIPE = {
    "settings": "config", "start": "init_from", "decay": "weight_decay", "smoothing": "label_smoothing", "pieces": "subwords",
    "size": "vocab_size", "longest": "max_length", "recorded": "cuda_graphs",
}  # fmt: skip
OF_IMAGES = ("classes", "many", "size", "mean", "std", "threshold", "temperature")


@dataclass(frozen=True, kw_only=True)
class TranslateCard(Card):
    task: str = "translate"
    vocabulary: str = ""  # its tokenizer's own JSON

    @classmethod
    def upgraded(cls, facts: dict[str, Any]) -> dict[str, Any]:
        facts = {key: value for key, value in facts.items() if key not in OF_IMAGES}
        if isinstance(facts.get("recipe"), dict):
            facts["recipe"] = {OLD_RECIPE.get(key, key): value for key, value in facts["recipe"].items()}
        return facts

    def check(self, where: str) -> None:
        super().check(where)
        expect(isinstance(self.vocabulary, str), where, "a card whose vocabulary is text", short_repr(self.vocabulary)[:80])
