"""What packages of others bring, by entry points: foveal's own names go before theirs, and a package that is broken
is named in one line while everything else works.
"""

import sys
from collections.abc import Callable, Collection
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from foveal.errors import FovealError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Thing = TypeVar("Thing")


def foreign(group: str, own: Collection[str]) -> dict[str, "EntryPoint"]:
    """Name → entry point of a group; none that is called like one of foveal's own."""
    from importlib import metadata  # 12 ms of a cold start, which foveal's own tasks do without

    return {point.name: point for point in metadata.entry_points(group=group) if point.name not in own}


def loaded(point: "EntryPoint", load: Callable[[], Thing]) -> Thing:
    """What a package brings; whatever it does instead is an error that names the package."""
    try:
        return load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 — the code is anybody's
        package = point.value if point.dist is None else f"{point.dist.name} {point.dist.version}"
        known = isinstance(error, FovealError)  # one line already, which says what to do
        reason = str(error) if known else " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise FovealError(
            f"{point.group} {point.name}: expected the package {package} to bring it, got {reason}; mend or remove "
            "the package"
        ) from None


@cache
def left_out(reason: str) -> None:
    """Say once what is missing."""
    print(f"foveal: left out: {reason}", file=sys.stderr, flush=True)
