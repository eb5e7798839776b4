"""Beam search: keep the B likeliest unfinished sentences of each source, let each grow by a word, and stop when none can win any more.

    of the 2B likeliest of all (sentence, next word): those among the first B that end are finished, the first B that do not end go on

Symbols: B the beam. Every sentence has one end, so at least B of the 2B go on. A source is done when it has n finished sentences and no unfinished
one can still get a better score than the worst of the n best: exact, as log P only falls (search.py). At the longest length all end, and a sentence
that no word may follow ends where it is, if its source has no other.
A beam of one is greedy search, which ends with the first end: greedy.py.
"""

from collections.abc import Sequence

import numpy as np

from foveal.runtime.decode.engine import Engine, Rows
from foveal.runtime.decode.search import Search, Sentence, bans, expect_numbers


def beam_search(engine: Engine, sources: Sequence[Sequence[int]], search: Search) -> list[list[Sentence]]:
    """For each source its best sentences, the best first."""
    if not sources:
        return []
    width = search.beam
    limits = np.array([search.limit(len(source)) for source in sources])
    finished: list[list[Sentence]] = [[] for _ in sources]
    live = np.arange(len(sources))  # which sources these rows belong to
    engine.begin(sources, width, int(limits.max()))
    totals = np.full((len(sources), width), -np.inf)
    totals[:, 0] = 0.0  # all rows begin alike: one of them is enough
    said: Rows = np.empty((len(sources), width, 0), np.int64)
    words: Rows = np.full(len(sources) * width, engine.first, np.int64)
    for length in range(1, int(limits.max()) + 1):
        following = expect_numbers(engine.step(words, 2 * width, bans(search, said.reshape(len(words), -1), engine.end)))
        before = totals
        forced = limits[live] == length
        for place in np.flatnonzero(forced):
            ends = totals[place] + following.ends.reshape(totals.shape)[place]
            for row in np.flatnonzero(ends > -np.inf):
                _finish(finished[live[place]], said[place, row], ends[row], search)
        growing = np.where(forced[:, None], -np.inf, totals)  # what was made to end does not end a second time
        parents, words, totals = _grow(engine, following.values, following.words, growing, said, search, finished, live)
        for place in np.flatnonzero(totals[:, 0] == -np.inf):
            if not finished[live[place]]:
                row = before[place].argmax()
                _finish(finished[live[place]], said[place, row], before[place, row], search)
        done = [
            len(finished[source]) >= search.best
            and finished[source][search.best - 1].score >= search.reachable(totals[place, 0], length, limits[source])
            for place, source in enumerate(live)
        ]
        going = np.flatnonzero(~forced & ~np.array(done) & (totals[:, 0] > -np.inf))
        if not len(going):
            break
        said = np.concatenate([np.take_along_axis(said, parents[:, :, None], 1), words[:, :, None]], 2)[going]
        totals, parents, words = totals[going], parents[going], words[going].reshape(-1)
        if len(going) < len(live):
            engine.keep(going)
            live = live[going]
        engine.reorder((np.arange(len(live))[:, None] * width + parents).reshape(-1))
    return [found[: search.best] for found in finished]


def _grow(
    engine: Engine,
    values: np.ndarray,
    words: Rows,
    totals: np.ndarray,
    said: Rows,
    search: Search,
    finished: list[list[Sentence]],
    live: Rows,
) -> tuple[Rows, Rows, np.ndarray]:
    """(S, B) each: the row that a sentence goes on from, its new word and its log P. Sentences that end are finished."""
    count, width = totals.shape
    each = values.shape[1]
    grown = (totals[:, :, None] + values.reshape(count, width, each)).reshape(count, -1)
    order = np.argsort(-grown, 1, kind="stable")[:, : 2 * width]
    grown, parents = np.take_along_axis(grown, order, 1), order // each
    said_now = np.take_along_axis(words.reshape(count, -1), order, 1)
    ends = said_now == engine.end
    for place, rank in zip(*np.nonzero(ends[:, :width] & (grown[:, :width] > -np.inf)), strict=True):
        _finish(finished[live[place]], said[place, parents[place, rank]], grown[place, rank], search)
    grown = np.where(ends, -np.inf, grown)
    on = np.argsort(-grown, 1, kind="stable")[:, :width]
    if on.shape[1] < width:  # a vocabulary smaller than the beam: the rows that are left over stay empty
        on = np.pad(on, ((0, 0), (0, width - on.shape[1])), constant_values=int(on[0, 0]))
        spare = np.arange(width) >= min(width, grown.shape[1])
        picked = np.where(spare, -np.inf, np.take_along_axis(grown, on, 1))
    else:
        picked = np.take_along_axis(grown, on, 1)
    return np.take_along_axis(parents, on, 1), np.take_along_axis(said_now, on, 1), picked


def _finish(found: list[Sentence], words: Rows, total: float, search: Search) -> None:
    """Add a sentence, the best first; of equals, the one that was found first."""
    score = float(total) / search.scale(len(words) + 1)
    place = next((place for place, other in enumerate(found) if other.score < score), len(found))
    found.insert(place, Sentence(tuple(int(word) for word in words), score, float(total)))
