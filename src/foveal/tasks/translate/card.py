"""What a translator's file has beside what every model's has: its vocabulary,
so that one file is all there is to give away.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from foveal.errors import expect, is_integer, is_number, short_repr
from foveal.runtime.card import Card

# Options of recipes that were written before `format: 1`.
OLD_RECIPE = {
    "settings": "config", "start": "init_from", "decay": "weight_decay", "smoothing": "label_smoothing",
    "pieces": "subwords", "size": "vocab_size", "longest": "max_length", "recorded": "cuda_graphs",
    "agreement": "r_drop", "bleu": "bleu_every", "penalty": "length_penalty",
}  # fmt: skip
# Fields of a translator's config that files and runs of before call otherwise.
OLD_CONFIG = {"source_words": "source_vocab", "target_words": "target_vocab", "longest": "max_length"}
OF_IMAGES = ("classes", "many", "size", "mean", "std", "threshold", "temperature")


@dataclass(frozen=True, kw_only=True)
class TranslateCard(Card):
    task: str = "translate"
    vocabulary: str = ""  # its tokenizer's own JSON

    renamed_config: ClassVar[dict[str, dict[str, str]]] = {"transformer": OLD_CONFIG, "seq2seq": OLD_CONFIG}

    @property
    def languages(self) -> tuple[str, ...]:
        """From which language into which; none of a model that nobody trained."""
        return tuple(map(str, self.data.get("languages") or ()))

    @property
    def beam(self) -> int:
        """Of the search that its recipe evaluates it with."""
        return int(self.recipe.get("beam", 4))

    @property
    def length_penalty(self) -> float:
        return float(self.recipe.get("length_penalty", 0.6))

    @classmethod
    def upgraded(cls, facts: dict[str, Any]) -> dict[str, Any]:
        facts = {key: value for key, value in facts.items() if key not in OF_IMAGES}
        if isinstance(facts.get("recipe"), dict):
            facts["recipe"] = {OLD_RECIPE.get(key, key): value for key, value in facts["recipe"].items()}
        return facts

    def check(self, where: str) -> None:
        super().check(where)
        expect(
            isinstance(self.vocabulary, str), where, "a card whose vocabulary is text", short_repr(self.vocabulary)[:80]
        )
        languages = self.data.get("languages") or []
        named = (
            isinstance(languages, list) and all(isinstance(one, str) for one in languages) and len(languages) in (0, 2)
        )
        expect(named, where, "a card whose data have two languages", short_repr(languages))
        beam, penalty = self.recipe.get("beam", 4), self.recipe.get("length_penalty", 0.6)
        expect(is_integer(beam) and beam > 0, where, "a recipe whose beam is an integer above 0", short_repr(beam))
        expect(is_number(penalty), where, "a recipe whose length_penalty is a number", short_repr(penalty))
        data, length = self.recipe.get("data", ""), self.recipe.get("max_length", 1)
        expect(isinstance(data, str), where, "a recipe whose data is text", short_repr(data))
        expect(
            is_integer(length) and length > 0,
            where,
            "a recipe whose max_length is an integer above 0",
            short_repr(length),
        )
