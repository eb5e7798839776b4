"""Explaining a translation: the sentence's translation, and the attention maps of every head, on one page."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foveal.atomic import write_atomic
from foveal.errors import expect, short_repr
from foveal.models.torch_engine import TorchEngine
from foveal.runtime.decode.batched import decode, max_positions
from foveal.runtime.decode.search import Search
from foveal.runtime.vocabulary import MARKS, both_from
from foveal.tasks.task import Explanation
from foveal.tasks.translate.attention import attention_maps
from foveal.tasks.translate.card import TranslateCard
from foveal.tasks.translate.page import Translated, page, picture
from foveal.tasks.translate.predict import lines_named, texts_of

if TYPE_CHECKING:
    from foveal.tasks.model import Model

LONGEST = 120  # tokens of a sentence: on a page of more nobody finds anything
END, BEGIN = MARKS[2], MARKS[1]


class TranslateExplanation(Explanation):
    """A page with every map, its average as a picture, and the numbers."""

    suffix = ".html"

    def __init__(self, translated: Translated) -> None:
        self.translated = translated
        self.facts = {
            "source": translated.source,
            "translation": translated.translation,
            "score": round(translated.score, 6),
            "source_subwords": translated.source_subwords,
            "subwords": translated.subwords,
            "cross": [[round(value, 6) for value in row] for row in translated.attention.average.tolist()],
        }
        self.arrays: dict[str, NDArray[Any]] = {
            "source": np.array(translated.source_subwords),
            "translation": np.array(translated.subwords),
            **translated.attention.maps,
        }

    def summary(self) -> str:
        return f"{self.translated.source}\n{self.translated.translation}"

    def save(self, path: str | Path) -> list[Path]:
        """The page, and the mean of all heads as an SVG beside it."""
        path = Path(path)
        expect(path.suffix.lower() == self.suffix, "--out", f"the name of a {self.suffix} file", str(path))
        drawn = path.with_suffix(".svg")
        rows, columns = self.translated.labels("cross")
        write_atomic(path, self.content())
        write_atomic(drawn, picture(self.translated.attention.average, rows, columns).encode())
        return [path, drawn]

    def content(self) -> bytes:
        return page(self.translated).encode()


def explain(model: "Model", sentence: Any) -> TranslateExplanation:
    """Of a sentence, or of a text file's first line."""
    named = isinstance(sentence, (str, Path))
    expect(named, "to explain", "one sentence", short_repr(sentence), "put it into quotation marks")
    first, *more = lines_named(str(sentence))
    if more:
        print(f"{sentence}: {len(more) + 1} lines, of which the first is explained", file=sys.stderr, flush=True)
    return TranslateExplanation(translate_watched(model, first.text))


def translate_watched(model: "Model", sentence: str) -> Translated:
    """A sentence's translation by beam search, and the maps of just that translation."""
    card = model.card
    assert isinstance(card, TranslateCard)
    expect(bool(card.vocabulary), model.name, "a model with its vocabulary", "one without")
    source, target = both_from(card.vocabulary)
    tokens = source.encode([sentence])[0]
    known = max_positions(card.config)
    limit = LONGEST if known is None else min(LONGEST, known - 1)
    expect(0 < len(tokens) <= limit, "the sentence", f"1 to {limit} tokens", len(tokens))
    network = model.network
    search = Search(beam=card.beam, length_penalty=card.length_penalty, max_positions=known)
    best = decode(TorchEngine(network), [tokens], search)[0][0]
    return Translated(
        model=card.model,
        source=source.normalise(sentence),
        translation=texts_of(target, [best])[0],
        score=best.score,
        source_subwords=[*source.subwords(tokens), END],
        subwords=[*target.subwords(best.tokens), END],
        begin=BEGIN,
        attention=attention_maps(network, tokens, best.tokens),
    )
