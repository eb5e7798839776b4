"""The proof that a folder for CTranslate2 says what its model says: both translate the same sentences, each with its own search.

    error = |log P of the folder − log P of the model| of each word of the model's own translations, their ends included
    same, BLEU: as in prove_translator.py

Greedy on both sides: beams would differ, as CTranslate2 has another penalty of length.
"""

from pathlib import Path
from typing import Any

import numpy as np

from foveal.models.torch_engine import TorchEngine
from foveal.runtime.decode.batched import decode_all, positions
from foveal.runtime.decode.engine import unsaid
from foveal.runtime.decode.search import Search
from foveal.runtime.vocabulary import PAD, Vocabulary
from foveal.tasks.translate.prove import BATCH, FORCED, ProofSentences, TranslatorParity, bleu_of, log_probabilities_of
from foveal.tasks.translate.to_ctranslate2 import places_of, tokens_of


def prove_ctranslate2(folder: Path, model: Any, vocabularies: tuple[Vocabulary, Vocabulary], held: ProofSentences) -> TranslatorParity:
    import ctranslate2

    source, target = (tokens_of(one) for one in vocabularies)
    numbers = {token: number for number, token in enumerate(target)}
    engine = ctranslate2.Translator(str(folder), device="cpu", inter_threads=1, intra_threads=1)
    places = positions(vars(model.config)) or places_of(model)
    held = held.shorter(places // 2 - 10)  # so that twice as many words and ten have their positions
    longest = 2 * max(map(len, held.source)) + 10
    search = Search(beam=1, longest=min(longest, places - 1))
    expected = [found[0].words for found in decode_all(TorchEngine(model), held.source, search, BATCH)]
    asked = [place for place, words in enumerate(held.source) if words]  # of nothing, no engine is asked
    given = [[source[number] for number in held.source[place]] for place in asked]
    config = model.config
    marks = [[target[mark]] for mark in unsaid(PAD, config.begin, config.end)]
    answers = engine.translate_batch(given, beam_size=1, max_decoding_length=search.longest, max_batch_size=BATCH, suppress_sequences=marks)
    said: list[tuple[int, ...]] = [()] * len(held.source)
    for place, answer in zip(asked, answers, strict=True):
        said[place] = tuple(numbers[token] for token in answer.hypotheses[0])
    same = float(np.mean([one == other for one, other in zip(said, expected, strict=True)]))
    few = asked[:FORCED]
    scored = engine.score_batch(given[: len(few)], [[target[word] for word in expected[place]] for place in few], max_batch_size=BATCH)
    apart = np.concatenate(
        [
            np.abs(np.array(told.log_probs) - _said(model, held.source[place], expected[place]))
            for place, told in zip(few, scored, strict=True)
        ]
    )
    facts = len(held.source), float(apart.max()), float(apart.mean()), None, same
    if held.references is None:
        return TranslatorParity(*facts)
    return TranslatorParity(*facts, "BLEU", *(bleu_of(vocabularies[1], words, held.references) for words in (expected, said)))


def _said(model: Any, source: list[int], words: tuple[int, ...]) -> Any:
    """The model's log P of each word of a translation and of its end."""
    return log_probabilities_of(model, source, words)[np.arange(len(words) + 1), [*words, model.config.end]]
