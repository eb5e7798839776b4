"""The image files that words name: files, folders to their bottom, patterns, a list on stdin."""

import codecs
import glob
import io
import os
import sys
from collections.abc import Iterator, Sequence

from foveal.errors import FovealError, reading
from foveal.runtime.image import SUFFIXES
from foveal.runtime.packaged import FILE

STDIN = "-"
CHUNK = 65536  # bytes


def image_files(words: Sequence[str]) -> list[str]:
    """The image files that the words name, in their order.

    A word that names none is an error, before any work is done.
    """
    if not words:
        raise FovealError("no image was named; give files, folders or patterns")
    return [file for word in words for file in _named(word)]


def listed(zero: bool = False) -> Iterator[str]:
    """The paths on stdin, one per line, or with `zero` one before each NUL byte; as they come."""
    separator, rest = b"\0" if zero else b"\n", b""
    for number, chunk in enumerate(_chunks()):
        chunk = chunk if number else chunk.removeprefix(codecs.BOM_UTF8)
        *whole, rest = (rest + chunk).split(separator)
        yield from _paths(whole, zero)
    yield from _paths([rest], zero)


def _named(word: str) -> list[str]:
    if os.path.isdir(word):  # noqa: PTH112 — also for what pathlib refuses, as below
        below = list(_below(word))
        if not below:
            raise FovealError(
                f"{word}: expected a folder with images, or one with a {FILE}, got one without; name another"
            )
        return below
    if os.path.lexists(word) or not glob.has_magic(word):
        return [word]  # whether it can be read is reported in its row
    matched = sorted(glob.glob(word, recursive=True))  # noqa: PTH207 — a Path would need the root apart
    found = [file for match in matched for file in (_below(match) if os.path.isdir(match) else [match])]  # noqa: PTH112
    if not found:
        raise FovealError(
            f"{word}: expected a pattern that matches images, got one that matches none; look at its folder"
        )
    # ** names a folder, and what is in it; through a link that leads up it names everything again and again
    return (
        list({os.path.realpath(file): file for file in reversed(found)}.values())[::-1]
        if "**" in word
        else list(dict.fromkeys(found))
    )


def _below(folder: str) -> Iterator[str]:
    """What is an image by its suffix, and not hidden."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__MACOSX")
        for name in sorted(files):
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                yield os.path.join(place, name)  # noqa: PTH118 — keeps ./ and // as they were typed


def _chunks() -> Iterator[bytes]:
    """Bytes of stdin as soon as they are there.

    Past Python's buffer, whose lock a thread that waits would hold until the very end.
    """
    if sys.stdin is None:
        return
    try:
        number = sys.stdin.fileno()
    except (io.UnsupportedOperation, ValueError):  # put in its place by a caller in the same process
        yield os.fsencode(sys.stdin.read())
        return
    while chunk := _read(number):
        yield chunk


def _read(number: int) -> bytes:
    with reading("the list on stdin"):
        return os.read(number, CHUNK)


def _paths(parts: list[bytes], zero: bool) -> Iterator[str]:
    for part in parts:
        path = part if zero else part.rstrip(b"\r")
        if path:
            yield os.fsdecode(path)
