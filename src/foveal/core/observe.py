"""Where an attention lets itself be seen: `watch` puts an observer here, and every mechanism of foveal reports to it.

A mechanism hands over a way to compute its weights, not the weights: nothing is computed that nobody asked for.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from torch import Tensor


@dataclass(frozen=True)
class Look:
    """One attention, as it ran: its size, the kernel, and how to get rows of its weights."""

    batch: int
    heads: int
    queries: int
    keys: int
    kernel: str
    rows: Callable[[Tensor], Tensor]  # query indices (n,) → weights (B, H, n, M), before dropout
    start: int = 0  # the position of the first query


observers: list[Callable[[Look], None]] = []


_starts: list[int] = [0]


@contextmanager
def queries_from(start: int) -> Iterator[None]:
    """The attention inside has its first query at this position: a layer with a cache says so to whoever watches."""
    _starts.append(start)
    try:
        yield
    finally:
        _starts.pop()


def report(look: Look) -> None:
    """Show one attention to whoever watches."""
    placed = replace(look, start=_starts[-1])
    for observer in observers:
        observer(placed)
