"""What a recording reads must live as long as the recording: caches keep tensors that they may forget.

A recording (a CUDA graph) repeats kernels with the addresses that they had. Whoever records lends a list; every cache
puts what it hands out into it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Value = TypeVar("Value")
_owner: ContextVar[list[object] | None] = ContextVar("owner", default=None)


@contextmanager
def keeping(owner: list[object]) -> Iterator[None]:
    """What is handed out meanwhile is the owner's, too."""
    token = _owner.set(owner)
    try:
        yield
    finally:
        _owner.reset(token)


def keep(value: Value) -> Value:
    owner = _owner.get()
    if owner is not None:
        owner.append(value)
    return value
