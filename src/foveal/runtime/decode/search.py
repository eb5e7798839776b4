"""How to search: the settings of a decoding, and the score that orders finished sentences.

    score(Y) = log P(Y | X) / ((5 + |Y|) / 6)^α

Symbols: |Y| words of the sentence, its end included; α the length penalty: 0 prefers short sentences, 0.6 is the paper's.
Paper: Yonghui Wu et al. (2016). Google's neural machine translation system. arXiv:1609.08144, equation 14.
"""

import math
from dataclasses import dataclass

import numpy as np

from foveal.errors import expect, expect_integer, is_number, short_repr
from foveal.runtime.decode.engine import Bans, Next, Rows

WIDEST = 1000  # sentences of a beam
STEEPEST = 10  # penalty: the score of a long sentence must stay a number


@dataclass(frozen=True)
class Search:
    beam: int = 4  # 1: greedy
    penalty: float = 0.6  # α
    best: int = 1  # how many sentences for each source
    shortest: int = 0  # words (a model's: pieces) before the end may come
    longest: int | None = None  # words at most; None: twice the source and ten
    room: int | None = None  # words that the model has positions for, the end included; None: any number
    no_repeat: int = 0  # no run of so many words comes twice; 0: any may
    sample: bool = False  # draw words instead of searching
    temperature: float = 1.0
    top: int = 0  # draw from so many of the likeliest words; 0: from all
    mass: float = 1.0  # … from the likeliest whose probabilities add up to this
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("beam", 1), ("best", 1), ("shortest", 0), ("no_repeat", 0), ("top", 0), ("seed", 0)):
            expect_integer(getattr(self, name), f"the search's {name}", least)
        if self.longest is not None:
            expect_integer(self.longest, "the search's longest")
            expect(self.longest >= self.shortest, "the search's longest", f"at least the shortest, {self.shortest}", self.longest)
        if self.room is not None:
            expect_integer(self.room, "the search's room")
        expect(self.beam <= WIDEST, "the search's beam", f"at most {WIDEST}", self.beam)
        fits = is_number(self.penalty) and abs(self.penalty) <= STEEPEST
        expect(fits, "the search's penalty", f"a number from -{STEEPEST} to {STEEPEST}", short_repr(self.penalty))
        drawn = self.sample or self.best <= self.beam
        expect(drawn, "the search's best", f"at most the beam, {self.beam}", self.best)
        warm = is_number(self.temperature) and 0 < self.temperature < math.inf
        expect(warm, "the search's temperature", "a number above 0", short_repr(self.temperature))
        share = is_number(self.mass) and 0 < self.mass <= 1
        expect(share, "the search's mass", "a share above 0, at most 1", short_repr(self.mass))

    def limit(self, source: int) -> int:
        """Words at most, the end included, of a source of so many."""
        most = self.longest + 1 if self.longest is not None else max(2 * source + 10, self.shortest + 1) + 1
        return most if self.room is None else min(most, self.room)

    def scale(self, words: int) -> float:
        """What log P is divided by."""
        return float(((5 + words) / 6) ** self.penalty)

    def reachable(self, total: float, said: int, limit: int) -> float:
        """The best score that a sentence with this log P may still get: more words only lower log P, and divide it by another number."""
        return max(total / self.scale(said + 1), total / self.scale(limit))


@dataclass(frozen=True)
class Sentence:
    words: tuple[int, ...]  # without marks
    score: float
    total: float  # log P, the end included


def expect_numbers(following: Next) -> Next:
    """What an engine says, if that is log-probabilities: a model whose weights are NaN says nothing that can be searched."""
    # The first is enough: all words of a row are divided by one sum, so that if one is NaN all are.
    broken = np.isnan(following.values[:, :1]).any() or np.isnan(following.ends).any()
    expect(not broken, "the model", "log-probabilities of words", "NaN", "its weights are damaged, or its training diverged")
    return following


def bans(search: Search, said: Rows, end: int) -> Bans | None:
    """What rows (R, t) may not say next: an end too early, or the last word of a run of words that has been."""
    rows, words = [], []
    if said.shape[1] < search.shortest:
        rows.append(np.arange(len(said)))
        words.append(np.full(len(said), end))
    size = search.no_repeat
    if size and said.shape[1] >= size:
        runs = np.lib.stride_tricks.sliding_window_view(said, size, axis=1)  # (R, t − size + 1, size)
        last = said[:, said.shape[1] - size + 1 :]
        row, place = np.nonzero((runs[:, :, :-1] == last[:, None, :]).all(2))
        rows.append(row)
        words.append(runs[row, place, -1])
    return Bans(np.concatenate(rows), np.concatenate(words)) if rows else None
