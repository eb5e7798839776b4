"""Sentences in, sentences out: sorted by length so that a batch holds little padding, and put back in order."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from foveal.runtime.decode.beam import beam_search
from foveal.runtime.decode.engine import Engine
from foveal.runtime.decode.greedy import one_by_one
from foveal.runtime.decode.search import Search, Sentence

AHEAD = 16  # batches that are gathered and sorted by length, where lines need not be waited for


def decode(
    engine: Engine, sources: Sequence[Sequence[int]], search: Search, places: Sequence[int] | None = None
) -> list[list[Sentence]]:
    """For each source its sentences, the best first. places: their numbers, which seed the sampling.

    None: from 0 on.
    """
    if search.sample or search.beam == 1:
        return one_by_one(engine, sources, search, range(len(sources)) if places is None else places)
    return beam_search(engine, sources, search)


def decode_all(
    engine: Engine, sources: Sequence[Sequence[int]], search: Search, batch: int, first: int = 0
) -> list[list[Sentence]]:
    """As decode, some sentences of like length at a time. An empty source has an empty sentence: no model is asked.

    first: the number of the first source, where there were others before.
    """
    answers: list[list[Sentence]] = [[Sentence((), 0.0, 0.0)] for _ in sources]
    lengths = np.array([len(source) for source in sources], np.int64)
    # The longest first: what does not fit fails at once.
    order = [int(place) for place in np.argsort(-lengths, kind="stable") if lengths[place]]
    for start in range(0, len(order), batch):
        places = order[start : start + batch]
        numbers = [first + place for place in places]
        for place, found in zip(
            places, decode(engine, [sources[place] for place in places], search, numbers), strict=True
        ):
            answers[place] = found
    return answers


def max_positions(config: Mapping[str, Any]) -> int | None:
    """Tokens of a sentence, its mark included, that a model has learned positions for.

    None: it takes any number of them.
    """
    return int(config["max_length"]) if config.get("position") == "learned" and "max_length" in config else None


def truncated(sources: Sequence[list[int]], limit: int | None) -> list[list[int]]:
    """The first tokens of each source, so that with its mark it has at most `limit`; None: all."""
    return [tokens[: None if limit is None else limit - 1] for tokens in sources]


def in_parts(lines: Iterable[str], size: int, answer: Callable[[list[str]], list[str]]) -> Iterator[str]:
    """Answers as lines come: `size` lines are gathered, answered together and handed out in order.

    1: each as soon as it is there.
    """
    waiting = iter(lines)
    while part := list(islice(waiting, size)):
        yield from answer(part)
