"""Files are written whole or not at all: a full disk, a Ctrl-C or a power cut leaves what was there before."""

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
    """A name beside the name, to write to; it takes the name's place at the end, or is gone.

    A link stays, and its target is replaced.
    """
    place = path
    part = path
    try:
        place = Path(os.path.realpath(path)) if path.is_symlink() else path
        part = place.with_name(f".{place.name}.{os.getpid()}.part") if place.name else place
        if place.exists() and not place.is_file():
            raise FovealError(
                f"cannot write {path}: expected the name of a file, got a folder or a device; choose another name"
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_behind(place)
        yield part
        _sync(part)
        part.replace(place)
        _sync(place.parent)
    except OSError as error:
        raise FovealError(f"cannot write {path}: {error.strerror or error}; choose another name") from None
    finally:
        if part != path:
            with contextlib.suppress(OSError):
                part.unlink()


def move_folder(made: Path, path: Path) -> None:
    """Give a folder that is written its name, in one step, once all that is in it is on the disk."""
    for file in made.rglob("*"):
        _sync(file)
    _sync(made)
    made.rename(path)
    _sync(path.parent)


def expect_folder(folder: Path) -> None:
    """Raise a FovealError unless files can be written into this folder, which is made: before hours of work,
    not after.
    """
    write_atomic(folder / ".trial", b"")
    with contextlib.suppress(OSError):
        (folder / ".trial").unlink()


@contextlib.contextmanager
def folder_for(folder: Path) -> Iterator[None]:
    """A folder that files can be written into.

    One that was made for it is gone again where what follows fails before it writes any.
    """
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    expect_folder(folder)
    try:
        yield
    except BaseException:
        for one in new:
            with contextlib.suppress(OSError):  # not empty: it stays, and so do those above
                one.rmdir()
        raise


def _sync(path: Path) -> None:
    """What was written is on the disk, not in a cache that a power cut empties.

    Not every file system can be asked for it.
    """
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove_left_behind(place: Path) -> None:
    """Half-written files of processes that were killed."""
    for part in place.parent.glob(f".{_escaped(place.name)}.*.part"):
        number = part.name.split(".")[-2]
        if number.isdecimal() and not _alive(int(number)):
            with contextlib.suppress(OSError):
                part.unlink()


def _escaped(name: str) -> str:
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
