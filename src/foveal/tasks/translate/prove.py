"""The proof that an exported translator computes what its model computes: both translate the same sentences.

    error = |log P of the file − log P of the model| of each token of the model's own translations, their ends included;
    error_anywhere: of all tokens of the vocabulary
    same = share of the translations that are the same, token for token;   Δ = BLEU, after − before

Time is that of a sentence alone, with the search that the proof was made with, on one thread, in turns with the
float32 file.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from foveal.data.parallel import Pairs, read_parallel
from foveal.deploy.measure.clock import interleaved
from foveal.errors import FovealError, expect
from foveal.models.torch_engine import TorchEngine
from foveal.runtime.decode.batched import decode_all, max_positions, truncated
from foveal.runtime.decode.engine import Engine
from foveal.runtime.decode.search import Search
from foveal.runtime.vocabulary import Vocabulary
from foveal.tasks.translate.card import TranslateCard
from foveal.tasks.translate.read import read_like

SENTENCES, FORCED, TIMED = 256, 32, 8  # translated, compared token for token, timed
MADE = "grammar:400:7"  # sentences for a model whose own are elsewhere
ROUNDS, WARM_UP, BATCH = 5, 1, 32


@dataclass(frozen=True, eq=False)
class ProofSentences:
    source: list[list[int]]
    what: str  # what they are, in words
    references: list[str] | None = None  # None: these are no sentences of its own

    def shorter(self, limit: int) -> "ProofSentences":
        """Those of at most `limit` tokens."""
        kept = [place for place, source in enumerate(self.source) if len(source) <= limit]
        expect(any(self.source[place] for place in kept), "the proof", f"a sentence of 1 to {limit} tokens", "none")
        references = None if self.references is None else [self.references[place] for place in kept]
        return ProofSentences([self.source[place] for place in kept], self.what, references)


@dataclass(frozen=True)
class Parity:
    """How far a file is from the model it was made of."""

    sentences: int
    largest: float  # |difference| of the log-probability of a token of a translation
    mean: float
    anywhere: float | None  # the largest of all tokens of the vocabulary, where these can be asked for
    same: float  # share of the translations
    figure: str = ""
    before: float | None = None  # of the model, on these sentences
    after: float | None = None  # of the file

    def facts(self) -> dict[str, Any]:
        return asdict(self)


def proof_sentences(card: TranslateCard, vocabulary: Vocabulary) -> ProofSentences:
    """Of the validation split it was trained with, or where that is elsewhere, made by the grammar."""
    limit = max_positions(card.config)
    try:
        data = read_like(card, str(card.recipe["data"]))
        pairs = _some(data.splits["val"])
        what = f"{len(pairs)} sentences of the validation split of {data.name}"
        return ProofSentences(truncated(vocabulary.encode(pairs.source), limit), what, pairs.target)
    except (FovealError, KeyError, OSError):  # the file is as good without them
        lines = read_parallel(MADE).splits["train"].source[:SENTENCES]
        return ProofSentences(
            truncated(vocabulary.encode(lines), limit), f"{len(lines)} sentences that the grammar made"
        )


def prove_translator(
    engine: Engine, model: nn.Module, target: Vocabulary, proof: ProofSentences, search: Search
) -> Parity:
    expected = [found[0].tokens for found in decode_all(TorchEngine(model), proof.source, search, BATCH)]
    found = [found[0].tokens for found in decode_all(engine, proof.source, search, BATCH)]
    same = float(np.mean([one == other for one, other in zip(found, expected, strict=True)]))
    forced = zip(proof.source[:FORCED], expected, strict=False)
    errors = [difference(engine, model, source, tokens) for source, tokens in forced if source]
    of_tokens = np.concatenate([one for one, _ in errors])
    facts = len(proof.source), float(of_tokens.max()), float(of_tokens.mean()), max(most for _, most in errors), same
    if proof.references is None:
        return Parity(*facts)
    return Parity(*facts, "BLEU", *(bleu_of(target, tokens, proof.references) for tokens in (expected, found)))


@torch.no_grad()
def log_probabilities_of(model: Any, source: Sequence[int], tokens: Sequence[int]) -> Any:
    """The model's log-probabilities (N, V) at each place of a forced translation, its end included."""
    given = torch.tensor([[model.config.begin, *tokens]])
    return model(torch.tensor([[*source, model.config.end]]), given)[0].log_softmax(-1).double().numpy()


def difference(engine: Engine, model: Any, source: Sequence[int], tokens: Sequence[int]) -> tuple[Any, float]:
    """Of a forced translation: |difference| of the log-probability of each token and of the end,
    and the largest of any token.
    """
    given = [model.config.begin, *tokens]
    probabilities = log_probabilities_of(model, source, tokens)
    engine.begin([source], 1, len(given))
    errors, most = [], 0.0
    for place, (token, following) in enumerate(zip(given, [*tokens, model.config.end], strict=True)):
        answer = engine.step(np.array([token]), probabilities.shape[1], None)
        error = np.abs(answer.values[0] - probabilities[place, answer.tokens[0]])
        most = max(most, float(error[np.isfinite(answer.values[0])].max()))
        errors.append(float(error[answer.tokens[0] == following][0]))
    return np.array(errors), most


def timed_translators(engines: dict[str, Engine], proof: ProofSentences, search: Search) -> dict[str, dict[str, float]]:
    """Milliseconds per sentence of each, in turns, one sentence at a time on one thread."""
    some = [source for source in proof.source if source][:TIMED]
    jobs = {name: partial(decode_all, engine, some, search, 1) for name, engine in engines.items()}
    return milliseconds(jobs, len(some))


def milliseconds(jobs: dict[str, Any], sentences: int) -> dict[str, dict[str, float]]:
    """Per sentence, of jobs that translate this many."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        taken = interleaved(jobs, rounds=ROUNDS, warm_up=WARM_UP)
    finally:
        torch.set_num_threads(threads)
    parts = ("median", "p10", "p90")
    return {name: {part: 1e3 * getattr(one, part) / sentences for part in parts} for name, one in taken.items()}


def bleu_of(target: Vocabulary, tokens: Sequence[Sequence[int]], references: list[str]) -> float:
    from foveal.metrics.bleu import translation_scores

    return translation_scores(target.decode(tokens), references, resamples=0)["bleu"].value


def _some(pairs: Pairs) -> Pairs:
    chosen = sorted(np.random.default_rng(0).permutation(len(pairs))[:SENTENCES].tolist())
    return Pairs([pairs.source[place] for place in chosen], [pairs.target[place] for place in chosen])
