"""How to search: the options of a decoding, and the score that orders finished sentences.

    score(Y) = log P(Y | X) / ((5 + |Y|) / 6)^α

Symbols: |Y| tokens of the sentence, its end included; α the length penalty: 0 prefers short sentences, 0.6 is the
    paper's.
Paper: Yonghui Wu et al. (2016). Google's neural machine translation system. arXiv:1609.08144, equation 14.
"""

import math
from dataclasses import dataclass

import numpy as np

from foveal.errors import expect, expect_integer, is_number, short_repr
from foveal.runtime.decode.engine import Bans, Next, Rows
from foveal.runtime.decode.limits import LARGEST_BEAM, STEEPEST

LEAST = {"beam": 1, "n_best": 1, "min_length": 0, "no_repeat": 0, "top_k": 0, "seed": 0}


@dataclass(frozen=True)
class Search:
    beam: int = 4  # 1: greedy
    length_penalty: float = 0.6  # α
    n_best: int = 1  # sentences per source
    min_length: int = 0  # tokens before the end may come
    max_length: int | None = None  # tokens, the end not included; None: twice the source and ten
    max_positions: int | None = None  # tokens that the model has positions for, the end included; None: any number
    no_repeat: int = 0  # no run of N tokens comes twice; 0: any may
    sample: bool = False  # draw tokens instead of searching
    temperature: float = 1.0
    top_k: int = 0  # draw from the K likeliest tokens; 0: from all
    top_p: float = 1.0  # … from the likeliest whose probabilities add up to this
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            expect_integer(getattr(self, name), f"the search's {name}", least)
        if self.max_length is not None:
            expect_integer(self.max_length, "the search's max_length")
            fits = self.max_length >= self.min_length
            expect(fits, "the search's max_length", f"at least the min_length, {self.min_length}", self.max_length)
        if self.max_positions is not None:
            expect_integer(self.max_positions, "the search's max_positions")
        expect(self.beam <= LARGEST_BEAM, "the search's beam", f"at most {LARGEST_BEAM}", self.beam)
        fits = is_number(self.length_penalty) and abs(self.length_penalty) <= STEEPEST
        bounds = f"a number from -{STEEPEST} to {STEEPEST}"
        expect(fits, "the search's length_penalty", bounds, short_repr(self.length_penalty))
        expect(
            self.sample or self.n_best <= self.beam,
            "the search's n_best",
            f"at most the beam, {self.beam}",
            self.n_best,
        )
        fits = is_number(self.temperature) and 0 < self.temperature < math.inf
        expect(fits, "the search's temperature", "a number above 0", short_repr(self.temperature))
        fits = is_number(self.top_p) and 0 < self.top_p <= 1
        expect(fits, "the search's top_p", "a number above 0, at most 1", short_repr(self.top_p))

    def limit(self, source: int) -> int:
        """The most tokens, the end included, for a source of this many."""
        longest = max(2 * source + 10, self.min_length + 1) if self.max_length is None else self.max_length
        return longest + 1 if self.max_positions is None else min(longest + 1, self.max_positions)

    def scale(self, tokens: int) -> float:
        """What log P is divided by."""
        return float(((5 + tokens) / 6) ** self.length_penalty)

    def reachable(self, total: float, length: int, limit: int) -> float:
        """The best score that a sentence with this log P may still get: more tokens only lower log P,
        and divide it by another number.
        """
        return max(total / self.scale(length + 1), total / self.scale(limit))


@dataclass(frozen=True)
class Sentence:
    tokens: tuple[int, ...]  # without marks
    score: float
    total: float  # log P, the end included


def expect_numbers(following: Next) -> Next:
    """What an engine answers, if that is log-probabilities:
    a model whose weights are NaN answers nothing that can be searched.
    """
    # The first is enough: all tokens of a row are divided by one sum, so that if one is NaN all are.
    broken = np.isnan(following.values[:, :1]).any() or np.isnan(following.ends).any()
    expect(
        not broken,
        "the model",
        "log-probabilities of tokens",
        "NaN",
        "its weights are damaged, or its training diverged",
    )
    return following


def bans(search: Search, prefixes: Rows, end: int) -> Bans | None:
    """What rows (R, t) may not continue with: an end too early, or the last token of an n-gram that has been."""
    rows, tokens = [], []
    if prefixes.shape[1] < search.min_length:
        rows.append(np.arange(len(prefixes)))
        tokens.append(np.full(len(prefixes), end))
    size = search.no_repeat
    if size and prefixes.shape[1] >= size:
        runs = np.lib.stride_tricks.sliding_window_view(prefixes, size, axis=1)  # (R, t − size + 1, size)
        last = prefixes[:, prefixes.shape[1] - size + 1 :]
        row, place = np.nonzero((runs[:, :, :-1] == last[:, None, :]).all(2))
        rows.append(row)
        tokens.append(runs[row, place, -1])
    return Bans(np.concatenate(rows), np.concatenate(tokens)) if rows else None
