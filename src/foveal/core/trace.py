"""torch.jit.trace: a graph that knows operations, and none of Python's decisions.

    graph(x) = f(x) for every x for which f takes the decisions that it took when it was traced

A decision about a size would be frozen without a word: what decides here by size asks `is_tracing` and takes the
general way. What cannot be general (a table drawn for one number of keys) goes through `only_for`, and the graph
refuses other sizes in one line.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import torch
from torch import Tensor


def is_tracing() -> bool:
    return torch._C._get_tracing_state() is not None


def is_exporting() -> bool:
    """torch.export is at work; before torch 2.13, torch's own function is always True in a graph of torch.compile."""
    exporting: bool = torch.compiler._is_exporting_flag
    return exporting


@contextmanager
def outside_of_trace() -> Iterator[None]:
    """What is computed inside becomes a constant of the graph:
    a table that a cache keeps would differ from the first trace to the second.
    """
    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch._C._set_tracing_state(state)  # type: ignore[attr-defined]


def only_for(size: int | Tensor, what: str, tensor: Tensor) -> Tensor:
    """The tensor, in a graph that raises for another size than this one."""
    if not isinstance(size, Tensor):  # not traced: an int
        return tensor
    checked: Tensor = _guard()(tensor, size, int(size), what)
    return checked


@lru_cache(maxsize=1)
def _guard() -> Callable[..., Tensor]:
    """A scripted function keeps its branch inside a traced graph.

    Torch drops an assertion whose result nobody reads.
    """
    with outside_of_trace():
        guard: Callable[..., Tensor] = torch.jit.script(_refuse_other_sizes)
    return guard


def _refuse_other_sizes(tensor: Tensor, size: Tensor, traced: int, what: str) -> Tensor:
    if int(size) != traced:
        raise ValueError(
            f"{what}: expected {traced} keys, as when this graph was traced, got {int(size)}; trace it at that length"
        )
    return tensor
