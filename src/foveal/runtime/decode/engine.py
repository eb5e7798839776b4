"""What a search asks of a model: log-probabilities of the next token for a batch of unfinished sentences,
and nothing else.

A row is one unfinished sentence; the rows of one source stand together, `beams` of them. Whoever computes (torch,
onnxruntime) keeps caches and source sides to itself; what crosses over is a few numbers per row.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Numbers = NDArray[np.float64]


class Next(NamedTuple):
    """The likeliest next tokens of every row, R of them."""

    values: Numbers  # (R, K) log-probabilities, the largest first
    tokens: Rows  # (R, K)
    ends: Numbers  # (R,) log-probability of the end


class Bans(NamedTuple):
    """Tokens that a row may not continue with. Their probability is lost, not shared out among the others."""

    rows: Rows  # (n,)
    tokens: Rows  # (n,)


class Engine(Protocol):
    """A model in the middle of its sentences."""

    first: int  # the mark that every sentence begins with
    end: int  # the mark that ends one

    def begin(self, sources: Sequence[Sequence[int]], beams: int, limit: int) -> None:
        """Read the sources; rows are sources × beams, and no sentence grows beyond `limit` tokens, the end included."""

    def step(self, tokens: Rows, top_k: int, bans: Bans | None) -> Next:
        """Every row has got its token (R,): what comes next?

        At most `top_k` tokens per row, as many as the vocabulary has.
        """

    def reorder(self, parents: Rows) -> None:
        """Row r continues from the prefix of row parents[r]; both are of one source."""

    def keep(self, sources: Rows) -> None:
        """Only these sources go on, in this order; the others are done."""


def padded(sources: Sequence[Sequence[int]], pad: int, end: int) -> tuple[Rows, Rows]:
    """Sources as engines read them: (S, M) tokens, each with its end and then padding,
    and how many are no padding (S,).
    """
    lengths = np.array([len(source) + 1 for source in sources], np.int64)
    tokens = np.full((len(sources), int(lengths.max())), pad, np.int64)
    for row, source in enumerate(sources):
        tokens[row, : len(source)] = source
        tokens[row, len(source)] = end
    return tokens, lengths


def never_generated(pad: int, first: int, end: int) -> Rows:
    """The marks that no sentence contains: padding, and a second beginning.

    A model may begin with its padding, or with its end.
    """
    return np.array(sorted({pad, first} - {end}), np.int64)
