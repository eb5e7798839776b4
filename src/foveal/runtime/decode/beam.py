"""Beam search: keep the B likeliest unfinished sentences of each source, let each grow by a token,
and stop when none can win any more.

    of the 2B likeliest of all (sentence, next token):
        those among the first B that end are finished, the first B that do not end go on

Symbols: B the beam. Every sentence has one end, so at least B of the 2B go on. A source is done when it has n finished
sentences and no unfinished one can still get a better score than the worst of the n best: exact, as log P only falls
(search.py). At the longest length all end, and a sentence that no token may follow ends where it is, if its source has
no other. A beam of one is greedy search, which ends with the first end: greedy.py.
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
    prefixes: Rows = np.empty((len(sources), width, 0), np.int64)
    tokens: Rows = np.full(len(sources) * width, engine.first, np.int64)
    for length in range(1, int(limits.max()) + 1):
        following = expect_numbers(
            engine.step(tokens, 2 * width, bans(search, prefixes.reshape(len(tokens), -1), engine.end))
        )
        before = totals
        forced = limits[live] == length
        for place in np.flatnonzero(forced):
            ends = totals[place] + following.ends.reshape(totals.shape)[place]
            for row in np.flatnonzero(ends > -np.inf):
                _finish(finished[live[place]], prefixes[place, row], ends[row], search)
        growing = np.where(forced[:, None], -np.inf, totals)  # what was made to end does not end twice
        parents, tokens, totals = _grow(
            engine, following.values, following.tokens, growing, prefixes, search, finished, live
        )
        for place in np.flatnonzero(totals[:, 0] == -np.inf):
            if not finished[live[place]]:
                row = before[place].argmax()
                _finish(finished[live[place]], prefixes[place, row], before[place, row], search)
        done = [
            len(finished[source]) >= search.n_best
            and finished[source][search.n_best - 1].score >= search.reachable(totals[place, 0], length, limits[source])
            for place, source in enumerate(live)
        ]
        going = np.flatnonzero(~forced & ~np.array(done) & (totals[:, 0] > -np.inf))
        if not len(going):
            break
        prefixes = np.concatenate([np.take_along_axis(prefixes, parents[:, :, None], 1), tokens[:, :, None]], 2)[going]
        totals, parents, tokens = totals[going], parents[going], tokens[going].reshape(-1)
        if len(going) < len(live):
            engine.keep(going)
            live = live[going]
        engine.reorder((np.arange(len(live))[:, None] * width + parents).reshape(-1))
    return [found[: search.n_best] for found in finished]


def _grow(
    engine: Engine,
    values: np.ndarray,
    tokens: Rows,
    totals: np.ndarray,
    prefixes: Rows,
    search: Search,
    finished: list[list[Sentence]],
    live: Rows,
) -> tuple[Rows, Rows, np.ndarray]:
    """(S, B) each: the row that a sentence goes on from, its new token and its log P.

    Sentences that end are finished.
    """
    count, width = totals.shape
    each = values.shape[1]
    grown = (totals[:, :, None] + values.reshape(count, width, each)).reshape(count, -1)
    order = np.argsort(-grown, 1, kind="stable")[:, : 2 * width]
    grown, parents = np.take_along_axis(grown, order, 1), order // each
    grown_tokens = np.take_along_axis(tokens.reshape(count, -1), order, 1)
    ends = grown_tokens == engine.end
    for place, rank in zip(*np.nonzero(ends[:, :width] & (grown[:, :width] > -np.inf)), strict=True):
        _finish(finished[live[place]], prefixes[place, parents[place, rank]], grown[place, rank], search)
    grown = np.where(ends, -np.inf, grown)
    on = np.argsort(-grown, 1, kind="stable")[:, :width]
    if on.shape[1] < width:  # a vocabulary smaller than the beam: the rows that are left over stay empty
        on = np.pad(on, ((0, 0), (0, width - on.shape[1])), constant_values=int(on[0, 0]))
        spare = np.arange(width) >= min(width, grown.shape[1])
        picked = np.where(spare, -np.inf, np.take_along_axis(grown, on, 1))
    else:
        picked = np.take_along_axis(grown, on, 1)
    return np.take_along_axis(parents, on, 1), np.take_along_axis(grown_tokens, on, 1), picked


def _finish(found: list[Sentence], tokens: Rows, total: float, search: Search) -> None:
    """Add a sentence, the best first; of equals, the one that was found first."""
    score = float(total) / search.scale(len(tokens) + 1)
    place = next((place for place, other in enumerate(found) if other.score < score), len(found))
    found.insert(place, Sentence(tuple(int(token) for token in tokens), score, float(total)))
