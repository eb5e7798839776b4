"""Sentences in, sentences out: sorted by length so that a batch holds little padding, and put back in order."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from foveal.runtime.decode.beam import beam_search
from foveal.runtime.decode.engine import Engine
from foveal.runtime.decode.greedy import one_by_one
from foveal.runtime.decode.search import Search, Sentence

MOST = 1024  # pieces of a source, its mark included: attention on more would take memory by their square
AHEAD = 16  # batches that are gathered and sorted by length, where lines need not be waited for


def decode(engine: Engine, sources: Sequence[Sequence[int]], search: Search, places: Sequence[int] | None = None) -> list[list[Sentence]]:
    """For each source its sentences, the best first. places: their numbers, which the drawing goes by; None: from 0 on."""
    if search.sample or search.beam == 1:
        return one_by_one(engine, sources, search, range(len(sources)) if places is None else places)
    return beam_search(engine, sources, search)


def decode_all(engine: Engine, sources: Sequence[Sequence[int]], search: Search, batch: int, first: int = 0) -> list[list[Sentence]]:
    """As decode, some sentences of like length at a time. An empty source has an empty sentence: no model was asked.

    first: the number of the first source, where there were others before.
    """
    answers: list[list[Sentence]] = [[Sentence((), 0.0, 0.0)] for _ in sources]
    lengths = np.array([len(source) for source in sources], np.int64)
    order = [
        int(place) for place in np.argsort(-lengths, kind="stable") if lengths[place]
    ]  # the longest first: what does not fit fails at once
    for start in range(0, len(order), batch):
        places = order[start : start + batch]
        numbers = [first + place for place in places]
        for place, found in zip(places, decode(engine, [sources[place] for place in places], search, numbers), strict=True):
            answers[place] = found
    return answers


def positions(config: Mapping[str, Any]) -> int | None:
    """Pieces of a sentence, its mark included, that a model has learned positions for; None: it takes any number of them."""
    return int(config["longest"]) if config.get("position") == "learned" and "longest" in config else None


def beginnings(sources: Sequence[list[int]], most: int | None) -> list[list[int]]:
    """Of each source so many pieces, with room for its mark; None: all."""
    return [pieces[: None if most is None else most - 1] for pieces in sources]


def in_parts(lines: Iterable[str], multi_label: int, answer: Callable[[list[str]], list[str]]) -> Iterator[str]:
    """Answers as lines come: `many` are gathered, answered together and handed out in order. 1: each as soon as it is there."""
    waiting = iter(lines)
    while part := list(islice(waiting, multi_label)):
        yield from answer(part)
