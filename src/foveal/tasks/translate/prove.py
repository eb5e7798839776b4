"""The proof that an exported translator says what its model says: held beside it on the same sentences.

    error = |log P of the file − log P of the model| of each word of the model's own translations, their ends included;   anywhere: of all words of
    the vocabulary;   same = share of the translations that are the same, word for word;   Δ = BLEU, after − before

Time is that of a sentence alone, with the search that the proof was made with, on one thread, in turns with the float32 file.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from foveal.data.parallel import LONGEST, Pairs, Parallel, read_parallel
from foveal.data.parallel_files import SIDES
from foveal.deploy.measure.clock import interleaved
from foveal.errors import FovealError, expect
from foveal.models.torch_engine import TorchEngine
from foveal.runtime.card import Card
from foveal.runtime.decode.batched import beginnings, decode_all, positions
from foveal.runtime.decode.engine import Engine
from foveal.runtime.decode.search import Search
from foveal.runtime.vocabulary import Vocabulary

SENTENCES, FORCED, TIMED = 256, 32, 8  # translated, held word for word, timed
MADE = "grammar:400:7"  # sentences for a model whose own are elsewhere
ROUNDS, WARM_UP, BATCH = 5, 1, 32


@dataclass(frozen=True, eq=False)
class ProofSentences:
    source: list[list[int]]
    words: str  # what they are
    references: list[str] | None = None  # None: these are no sentences of its own

    def shorter(self, most: int) -> "ProofSentences":
        """Those of at most so many pieces."""
        kept = [place for place, source in enumerate(self.source) if len(source) <= most]
        expect(any(self.source[place] for place in kept), "the proof", f"a sentence of 1 to {most} pieces", "none")
        references = None if self.references is None else [self.references[place] for place in kept]
        return ProofSentences([self.source[place] for place in kept], self.words, references)


@dataclass(frozen=True)
class TranslatorParity:
    """How far a file is from the model it was made of."""

    sentences: int
    largest: float  # of |difference| of the log-probability of a word that was said
    mean: float
    anywhere: float | None  # the largest of all words of the vocabulary, where these can be asked for
    same: float  # share of the translations
    figure: str = ""
    before: float | None = None  # of the model, on these sentences
    after: float | None = None  # of the file

    def facts(self) -> dict[str, Any]:
        return asdict(self)


def sentences_of(card: Card, where: str) -> Parallel:
    """A set as this model's own was read: its languages, and the same limit of length, since another one would cut other splits by hash."""
    languages = tuple(card.data.get("languages") or ())
    source, target = (None, None) if languages in ((), SIDES) else languages
    return read_parallel(where, source=source, target=target, bad="drop", longest=card.recipe.get("longest", LONGEST))


def held_sentences(card: Card, vocabulary: Vocabulary) -> ProofSentences:
    """Of the validation split it was chosen on, or where that is elsewhere, made by the grammar."""
    most = positions(card.config)
    try:
        data = sentences_of(card, str(card.recipe["data"]))
        pairs = _some(data.splits["val"])
        return ProofSentences(
            beginnings(vocabulary.encode(pairs.source), most),
            f"{len(pairs)} sentences of the validation split of {data.name}",
            pairs.target,
        )
    except (FovealError, KeyError, OSError):  # the file is as good without them
        lines = read_parallel(MADE).splits["train"].source[:SENTENCES]
        return ProofSentences(beginnings(vocabulary.encode(lines), most), f"{len(lines)} sentences that the grammar made")


def prove_translator(engine: Engine, model: nn.Module, target: Vocabulary, held: ProofSentences, search: Search) -> TranslatorParity:
    expected = [found[0].words for found in decode_all(TorchEngine(model), held.source, search, BATCH)]
    said = [found[0].words for found in decode_all(engine, held.source, search, BATCH)]
    same = float(np.mean([one == other for one, other in zip(said, expected, strict=True)]))
    apart = [difference(engine, model, source, words) for source, words in zip(held.source[:FORCED], expected, strict=False) if source]
    of_words = np.concatenate([one for one, _ in apart])
    facts = len(held.source), float(of_words.max()), float(of_words.mean()), max(most for _, most in apart), same
    if held.references is None:
        return TranslatorParity(*facts)
    return TranslatorParity(*facts, "BLEU", *(bleu_of(target, words, held.references) for words in (expected, said)))


@torch.no_grad()
def log_probabilities_of(model: Any, source: Sequence[int], words: Sequence[int]) -> Any:
    """The model's log-probabilities (N, V) at each place of a forced translation, its end included."""
    given = torch.tensor([[model.config.begin, *words]])
    return model(torch.tensor([[*source, model.config.end]]), given)[0].log_softmax(-1).double().numpy()


def difference(engine: Engine, model: Any, source: Sequence[int], words: Sequence[int]) -> tuple[Any, float]:
    """Of a forced translation: |difference| of the log-probability of each word and of the end, and the largest of any word."""
    given = [model.config.begin, *words]
    probabilities = log_probabilities_of(model, source, words)
    engine.begin([source], 1, len(given))
    apart, most = [], 0.0
    for place, (word, following) in enumerate(zip(given, [*words, model.config.end], strict=True)):
        told = engine.step(np.array([word]), probabilities.shape[1], None)
        off = np.abs(told.values[0] - probabilities[place, told.words[0]])
        most = max(most, float(off[np.isfinite(told.values[0])].max()))
        apart.append(float(off[told.words[0] == following][0]))
    return np.array(apart), most


def timed_translators(engines: dict[str, Engine], held: ProofSentences, search: Search) -> dict[str, dict[str, float]]:
    """Milliseconds a sentence of each, in turns, one sentence at a time on one thread."""
    some = [source for source in held.source if source][:TIMED]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        taken = interleaved(
            {name: partial(decode_all, engine, some, search, 1) for name, engine in engines.items()}, rounds=ROUNDS, warm_up=WARM_UP
        )
    finally:
        torch.set_num_threads(threads)
    return {name: {part: 1e3 * getattr(one, part) / len(some) for part in ("median", "p10", "p90")} for name, one in taken.items()}


def _some(pairs: Pairs) -> Pairs:
    chosen = sorted(np.random.default_rng(0).permutation(len(pairs))[:SENTENCES].tolist())
    return Pairs([pairs.source[place] for place in chosen], [pairs.target[place] for place in chosen])


def bleu_of(target: Vocabulary, words: Sequence[Sequence[int]], references: list[str]) -> float:
    from foveal.metrics.bleu import translation_scores

    return translation_scores(target.decode(words), references, draws=1)["bleu"].value
