"""Files are written whole or not at all: a full disk or a Ctrl-C leaves what was there before."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from foveal.errors import FovealError


def write_atomic(path: Path, content: bytes) -> None:
    """Write beside the name, then take its place in one step; folders on the way are made."""
    with beside(path) as part:
        part.write_bytes(content)


@contextlib.contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A name beside the name, to write to; it takes the name's place at the end, or is gone."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part") if path.name else path
    try:
        if path.exists() and not path.is_file():
            raise FovealError(f"cannot write {path}: expected the name of a file, got something that is no file")
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        part.replace(path)
    except OSError as error:
        raise FovealError(
            f"cannot write {path}: expected a file that can be written, got {error.strerror or error}; give another name"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def expect_folder(folder: Path) -> None:
    """Raise a FovealError unless files can be written into this folder, which is made: before hours of work, not after."""
    write_atomic(folder / ".trial", b"")
    with contextlib.suppress(OSError):
        (folder / ".trial").unlink()
