"""The proof that a folder for CTranslate2 says what its model says: both translate the same sentences, each with its own search.

    error = |log P of the folder − log P of the model| of each word of the model's own translations, their ends included;   same, BLEU: as in prove_translator.py

Greedy on both sides: beams would differ, as CTranslate2 has another penalty of length.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from foveal.data.vocabulary import PAD, Vocabulary
from foveal.decode.lines import decode_all, positions
from foveal.decode.search import Search
from foveal.deploy.prove_translator import BATCH, FORCED, HeldSentences, Sameness, bleu_of
from foveal.deploy.to_ctranslate2 import tokens_of
from foveal.models.torch_engine import TorchEngine


def prove_ctranslate2(folder: Path, model: Any, vocabularies: tuple[Vocabulary, Vocabulary], held: HeldSentences) -> Sameness:
    import ctranslate2

    source, target = (tokens_of(one) for one in vocabularies)
    numbers = {token: number for number, token in enumerate(target)}
    engine = ctranslate2.Translator(str(folder), device="cpu", inter_threads=1, intra_threads=1)
    room = positions(vars(model.config))
    longest = 2 * max(map(len, held.source)) + 10
    search = Search(beam=1, longest=longest if room is None else min(longest, room - 1))
    expected = [found[0].words for found in decode_all(TorchEngine(model), held.source, search, BATCH)]
    asked = [place for place, words in enumerate(held.source) if words]  # of nothing, no engine is asked
    given = [[source[number] for number in held.source[place]] for place in asked]
    unsaid = [[target[mark]] for mark in sorted({PAD, model.config.begin} - {model.config.end})]
    answers = engine.translate_batch(
        given, beam_size=1, max_decoding_length=search.longest, max_batch_size=BATCH, suppress_sequences=unsaid
    )
    said: list[tuple[int, ...]] = [()] * len(held.source)
    for place, answer in zip(asked, answers, strict=True):
        said[place] = tuple(numbers[token] for token in answer.hypotheses[0])
    same = float(np.mean([one == other for one, other in zip(said, expected, strict=True)]))
    few = asked[:FORCED]
    scored = engine.score_batch(given[: len(few)], [[target[word] for word in expected[place]] for place in few], max_batch_size=BATCH)
    apart = np.concatenate(
        [
            np.abs(np.array(told.log_probs) - _chances(model, held.source[place], expected[place]))
            for place, told in zip(few, scored, strict=True)
        ]
    )
    facts = len(held.source), float(apart.max()), float(apart.mean()), None, same
    if held.references is None:
        return Sameness(*facts)
    return Sameness(*facts, "BLEU", *(bleu_of(vocabularies[1], words, held.references) for words in (expected, said)))


@torch.no_grad()
def _chances(model: nn.Module, source: list[int], words: tuple[int, ...]) -> Any:
    """log P of each word of a translation and of its end."""
    config: Any = model.config
    chances = model(torch.tensor([[*source, config.end]]), torch.tensor([[config.begin, *words]]))[0].log_softmax(-1).double().numpy()
    return chances[np.arange(len(words) + 1), [*words, config.end]]
