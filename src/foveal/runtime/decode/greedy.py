"""One sentence for each source, a token after the other: the likeliest, or one drawn from the likeliest.

greedy:  y_t = argmax P(y | y_<t, X);      sampling:  y_t ~ P(y | y_<t, X)^(1/T), among the likeliest tokens only

A sentence that no token may follow, or that must end and may not, ends where it is. What is drawn for a source depends
on the seed and on its number, and not on what stands beside it.
"""

from collections.abc import Sequence

import numpy as np

from foveal.runtime.decode.engine import Engine, Next, Numbers, Rows
from foveal.runtime.decode.search import Search, Sentence, bans, expect_numbers

ALL = 2**31 - 1  # tokens: as many as there are


def one_by_one(
    engine: Engine, sources: Sequence[Sequence[int]], search: Search, places: Sequence[int]
) -> list[list[Sentence]]:
    """For each source one sentence, or if they are drawn as many as are asked for. places: the sources' numbers,
    for the drawing.
    """
    if not sources:
        return []
    rows = search.n_best if search.sample else 1
    limits = np.array([search.limit(len(source)) for source in sources]).repeat(rows)
    found: list[Sentence | None] = [None] * len(limits)
    live = np.arange(len(limits))
    draws = (
        [np.random.default_rng([search.seed, place, copy]) for place in places for copy in range(rows)]
        if search.sample
        else []
    )
    engine.begin(sources, rows, int(limits.max()))
    totals = np.zeros(len(limits))
    prefixes: Rows = np.empty((len(limits), 0), np.int64)
    tokens: Rows = np.full(len(limits), engine.first, np.int64)
    top_k = (search.top_k or ALL) if search.sample else 1
    for length in range(1, int(limits.max()) + 1):
        following = expect_numbers(engine.step(tokens, top_k, bans(search, prefixes, engine.end)))
        drawn = np.array([draws[row].random() for row in live]) if search.sample else None
        picked = np.zeros(len(tokens), np.int64) if drawn is None else _drawn(following, search, drawn)
        tokens = np.take_along_axis(following.tokens, picked[:, None], 1)[:, 0]
        gained = np.take_along_axis(following.values, picked[:, None], 1)[:, 0]
        forced = limits[live] == length
        stuck = (gained == -np.inf) | (forced & (following.ends == -np.inf))
        ends = forced | (tokens == engine.end) | stuck
        totals += np.where(stuck, 0.0, np.where(ends, following.ends, gained))
        for row in np.flatnonzero(ends):
            if found[live[row]] is None:
                total = float(totals[row])
                found[live[row]] = Sentence(
                    tuple(int(token) for token in prefixes[row]), total / search.scale(length), total
                )
        prefixes = np.concatenate([prefixes, tokens[:, None]], 1)
        # The rows of one source stand together in the engine, and leave it together.
        unfinished = np.array([found[row] is None for row in live]).reshape(-1, rows)
        going = np.flatnonzero(unfinished.any(1))
        if not len(going):
            break
        if len(going) < len(unfinished):
            engine.keep(going)
            kept = (going[:, None] * rows + np.arange(rows)).reshape(-1)
            live, totals, prefixes, tokens = live[kept], totals[kept], prefixes[kept], tokens[kept]
    sentences = [one for one in found if one is not None]
    grouped = [sentences[place : place + rows] for place in range(0, len(sentences), rows)]
    return [sorted(group, key=lambda one: -one.score) for group in grouped]


def _drawn(following: Next, search: Search, drawn: Numbers) -> Rows:
    """(R,): which of the candidates, the likeliest being first, by a number from 0 to 1 per row."""
    first = following.values[:, :1]
    with np.errstate(over="ignore"):  # of a temperature near 0 all but the likeliest have none
        probability = np.exp((following.values - np.where(first > -np.inf, first, 0.0)) / search.temperature)
    probability[:, 0] = 1.0
    probability /= probability.sum(1, keepdims=True)
    before = probability.cumsum(1) - probability
    probability = np.where(before < search.top_p, probability, 0.0)
    reached = probability.cumsum(1)
    picked: Rows = (reached < drawn[:, None] * reached[:, -1:]).sum(1).clip(max=probability.shape[1] - 1)
    return picked
