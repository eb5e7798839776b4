"""Where an attention lets itself be seen: `watch` puts an observer here, and every mechanism of foveal reports to it.

A mechanism hands over a way to compute its weights, not the weights: nothing is computed that nobody asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass

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


observers: list[Callable[[Look], None]] = []


def report(look: Look) -> None:
    """Show one attention to whoever watches."""
    for observer in observers:
        observer(look)
