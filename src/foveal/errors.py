"""What foveal says when it is given something it cannot use: one line, with what was expected, what was found and what to do."""

import difflib
from collections.abc import Iterable


class FovealError(ValueError):
    """Bad input. The message is one line and is meant for the person who made the call."""


def expect(holds: bool, what: str, expected: object, got: object, do: str = "") -> None:
    """Raise a FovealError that names `what`, unless it `holds`."""
    if not holds:
        advice = f"; {do}" if do else ""
        raise FovealError(f"{what}: expected {expected}, got {got}{advice}")


def unknown(kind: str, name: str, names: Iterable[str]) -> FovealError:
    """The error for a name that does not exist, with the nearest one that does."""
    known = sorted(names)
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.0)
    hint = f"the nearest is {near[0]!r}; " if near else ""
    return FovealError(f"no {kind} is called {name!r}; {hint}there are {', '.join(known)}")
