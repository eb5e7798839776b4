"""How far a loop over many items has come: who loops calls a Progress, and who shows it decides how."""

from collections.abc import Callable, Iterable
from typing import Any

Progress = Callable[[Iterable[Any], int, str], Iterable[Any]]  # items, how many, what is done → the items as they come


def silent(items: Iterable[Any], total: int, what: str) -> Iterable[Any]:
    """The Progress that shows nothing."""
    return items
