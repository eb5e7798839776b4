"""What does not change while a model learns, and is made once: pixels of a view, answers of teachers, what is seen by
what is frozen. Views come again with --views; without them nothing does, and nothing is kept.
"""

from collections.abc import Callable, Hashable
from typing import Any


class Kept(dict[tuple[str, Hashable], Any]):
    """By what it is, and of which view or batch."""

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.keeps = keeps

    def __call__(self, what: str, of: Callable[[], Hashable], make: Callable[[], Any], keep: bool = True) -> Any:
        """What `make` gives, made when it is first asked for. keep: whether there is room for it."""
        if not (self.keeps and keep):
            return make()
        key = what, of()
        if key not in self:
            self[key] = make()
        return self[key]
