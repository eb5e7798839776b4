"""The proof that a folder for CTranslate2 computes what its model computes: both translate the same sentences,
each with its own search.

    error = |log P of the folder − log P of the model|
            of each token of the model's own translations, their ends included
    same, BLEU: as in prove.py

Greedy on both sides: beams would differ, as CTranslate2 has another length penalty.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from foveal.models.torch_engine import TorchEngine
from foveal.runtime.decode.batched import decode_all, max_positions
from foveal.runtime.decode.engine import never_generated
from foveal.runtime.decode.search import Search
from foveal.runtime.vocabulary import PAD, Vocabulary
from foveal.tasks.translate.prove import (
    BATCH,
    FORCED,
    TIMED,
    Parity,
    ProofSentences,
    bleu_of,
    log_probabilities_of,
    milliseconds,
)
from foveal.tasks.translate.to_ctranslate2 import positions_of, tokens_of

Times = dict[str, dict[str, float]]


def prove_ctranslate2(
    folder: Path, model: Any, vocabularies: tuple[Vocabulary, Vocabulary], proof: ProofSentences
) -> tuple[Parity, Times]:
    """How far the folder is from its model, and milliseconds per sentence, greedy, one at a time, on one thread."""
    import ctranslate2

    source, target = (tokens_of(one) for one in vocabularies)
    numbers = {token: number for number, token in enumerate(target)}
    engine = ctranslate2.Translator(str(folder), device="cpu", inter_threads=1, intra_threads=1)
    positions = max_positions(vars(model.config)) or positions_of(model)
    proof = proof.shorter(positions // 2 - 10)  # so that twice as many tokens and ten have their positions
    longest = 2 * max(map(len, proof.source)) + 10
    search = Search(beam=1, max_length=min(longest, positions - 1))
    expected = [found[0].tokens for found in decode_all(TorchEngine(model), proof.source, search, BATCH)]
    # no engine is asked for a translation of nothing
    asked = [place for place, tokens in enumerate(proof.source) if tokens]
    given = [[source[number] for number in proof.source[place]] for place in asked]
    config = model.config
    marks = [[target[mark]] for mark in never_generated(PAD, config.begin, config.end)]
    options = {"beam_size": 1, "max_decoding_length": search.max_length, "suppress_sequences": marks}
    found: list[tuple[int, ...]] = [()] * len(proof.source)
    for place, answer in zip(asked, engine.translate_batch(given, max_batch_size=BATCH, **options), strict=True):
        found[place] = tuple(numbers[token] for token in answer.hypotheses[0])
    same = float(np.mean([one == other for one, other in zip(found, expected, strict=True)]))
    some = asked[:FORCED]
    forced = [[target[token] for token in expected[place]] for place in some]
    scored = engine.score_batch(given[: len(some)], forced, max_batch_size=BATCH)
    pairs = zip(some, scored, strict=True)
    errors = np.concatenate(
        [_error(one.log_probs, model, proof.source[place], expected[place]) for place, one in pairs]
    )
    facts = len(proof.source), float(errors.max()), float(errors.mean()), None, same
    times = milliseconds({"file": partial(_one_by_one, engine, given[:TIMED], options)}, len(given[:TIMED]))
    if proof.references is None:
        return Parity(*facts), times
    return Parity(
        *facts, "BLEU", *(bleu_of(vocabularies[1], tokens, proof.references) for tokens in (expected, found))
    ), times


def _one_by_one(engine: Any, sentences: list[list[str]], options: dict[str, Any]) -> None:
    for one in sentences:
        engine.translate_batch([one], **options)


def _error(log_probs: Sequence[float], model: Any, source: list[int], tokens: tuple[int, ...]) -> Any:
    """|difference| of the log-probability of each token of a translation and of its end."""
    own = log_probabilities_of(model, source, tokens)[np.arange(len(tokens) + 1), [*tokens, model.config.end]]
    return np.abs(np.array(log_probs) - own)
