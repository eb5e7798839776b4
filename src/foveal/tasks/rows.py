"""Results as rows of text, each as soon as it is known; a file is there whole or not at all."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from foveal.atomic import beside


@contextlib.contextmanager
def written_rows(head: str, row: Callable[[Any], str], out: Path | None) -> Iterator[Callable[[Any], None]]:
    """A function that writes the row of a result: to `out`, or to stdout; the head goes before the first."""
    above = head
    with _file(out) if out is not None else contextlib.nullcontext(sys.stdout) as stream:

        def write(result: Any) -> None:
            nonlocal above
            stream.write(above + row(result))
            stream.flush()
            above = ""

        yield write


@contextlib.contextmanager
def _file(path: Path) -> Iterator[TextIO]:
    """A stream beside the name that takes its place at the end, in one step."""
    with beside(path) as part, part.open("w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
        yield stream
