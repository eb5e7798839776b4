"""Names of files as people type them and as systems have them: with ~, and in bytes that are no UTF-8."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def expanded(name: str) -> Path:
    """The path, with the home folder for ~; ~somebody who is not there is a name like any other."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def in_utf8(name: str) -> str:
    """The name that these bytes of a file system are in UTF-8, whatever the locale decodes; others as they are."""
    try:
        return os.fsencode(name).decode("utf-8")
    except UnicodeError:
        return name


@contextlib.contextmanager
def utf8_name(file: Path) -> Iterator[Path]:
    """A name of this file that is UTF-8, as safetensors wants it: its own, or that of a link to it."""
    try:
        os.fspath(file).encode()
    except UnicodeEncodeError:
        with tempfile.TemporaryDirectory() as folder:
            link = Path(folder) / f"link{file.suffix}"
            link.symlink_to(file.resolve())
            yield link
    else:
        yield file
