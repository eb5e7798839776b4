"""Files are written whole or not at all: a full disk or a Ctrl-C leaves what was there before."""

import contextlib
import os
from pathlib import Path

from foveal.errors import FovealError


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the name, then take its place in one step; folders on the way are made."""
    if path.exists() and not path.is_file():
        raise FovealError(f"cannot write {path}: expected the name of a file, got something that is no file")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        raise FovealError(
            f"cannot write {path}: expected a file that can be written, got {error.strerror or error}; give another name"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
