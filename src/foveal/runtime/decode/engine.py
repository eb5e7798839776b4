"""What a search asks of a model: log-probabilities of the next word for a batch of unfinished sentences, and nothing else.

A row is one unfinished sentence; the rows of one source stand together, `beams` of them. Whoever computes (torch, onnxruntime) keeps caches and
source sides to itself; what crosses over is a few numbers a row.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Numbers = NDArray[np.float64]


class Next(NamedTuple):
    """The likeliest next words of every row, R of them."""

    values: Numbers  # (R, K) log-probabilities, the largest first
    words: Rows  # (R, K)
    ends: Numbers  # (R,) log-probability of the end


class Bans(NamedTuple):
    """Words that a row may not say. Their probability is lost, not shared out among the others."""

    rows: Rows  # (n,)
    words: Rows  # (n,)


class Engine(Protocol):
    """A model in the middle of its sentences."""

    first: int  # the mark that every sentence begins with
    end: int  # the mark that ends one

    def begin(self, sources: Sequence[Sequence[int]], beams: int, longest: int) -> None:
        """Read the sources; rows are sources × beams, and no sentence grows beyond `longest` words, the end included."""

    def step(self, words: Rows, top: int, bans: Bans | None) -> Next:
        """Every row has said its word (R,): what comes next? At most `top` words of each row, as many as the vocabulary has."""

    def reorder(self, parents: Rows) -> None:
        """Row r goes on from what row parents[r] has said; both are of one source."""

    def keep(self, sources: Rows) -> None:
        """Only these sources go on, in this order; the others are done."""


def padded(sources: Sequence[Sequence[int]], pad: int, end: int) -> tuple[Rows, Rows]:
    """Sources as engines read them: (S, M) words, each with its end and then padding, and how many are no padding (S,)."""
    lengths = np.array([len(source) + 1 for source in sources], np.int64)
    words = np.full((len(sources), int(lengths.max())), pad, np.int64)
    for row, source in enumerate(sources):
        words[row, : len(source)] = source
        words[row, len(source)] = end
    return words, lengths


def unsaid(pad: int, first: int, end: int) -> Rows:
    """The marks that no sentence says: padding, and a second beginning. A model may begin with its padding, or with its end."""
    return np.array(sorted({pad, first} - {end}), np.int64)
