"""How far long work has come, and how long it still takes: a moving bar on a terminal, a line now and then in a log.

Always on stderr.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
FIRST, FACTOR = 5.0, 1.5  # seconds until the first line, and how much rarer they become


def progress(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """The items as they come."""
    if sys.stderr.isatty():
        try:
            from rich.progress import track
        except ModuleNotFoundError:
            pass  # the small install has no rich: lines will do
        else:
            from rich.console import Console

            yield from track(items, description=what, total=total, console=Console(stderr=True), transient=True)
            return
    start = time.monotonic()
    wait = due = FIRST
    for done, item in enumerate(items, 1):
        yield item
        passed = time.monotonic() - start
        if passed >= due and done < total:
            print(
                f"{what}: {done} of {total}, about {_spoken(passed / done * (total - done))} left",
                file=sys.stderr,
                flush=True,
            )
            wait *= FACTOR
            due = passed + wait


def _spoken(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )
