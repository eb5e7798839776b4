"""write_annotated(annotated, format, folder): a whole set in another format, or nothing."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from foveal.atomic import expect_folder
from foveal.data.annotated import AnnotatedSet
from foveal.data.annotations import format_named
from foveal.errors import FovealError, counted, expect, printable
from foveal.progress import Progress, silent


@dataclass(frozen=True)
class Written:
    line: str
    notes: tuple[str, ...]  # what the format could not hold


def write_annotated(annotated: AnnotatedSet, form: str, folder: Path, progress: Progress = silent) -> Written:
    """form: the format's name. folder: new, or empty; another set in it would be mixed with this one."""
    module = format_named(form)
    with _written_beside(folder) as part:
        notes = module.write(annotated, part, progress)
    line = f"{form}, {counted(len(annotated), 'image')}, {counted(len(annotated.classes), 'class', 'classes')}"
    return Written(line, (*annotated.notes, *notes))


@contextlib.contextmanager
def _written_beside(folder: Path) -> Iterator[Path]:
    """A folder beside the folder, which takes its name when all is written, or is gone."""
    there = (
        sorted(one.name for one in folder.iterdir()) if folder.is_dir() else [folder.name] if folder.exists() else []
    )
    got = f"one with {printable(there[0])} in it" if folder.is_dir() and there else "a file"
    expect(not there, f"--out {folder}", "a new or an empty folder", got, "choose another name")
    expect_folder(folder.parent)
    part = folder.parent / f".{folder.name}.{os.getpid()}.part"
    try:
        part.mkdir()
        yield part
        os.sync()  # once for all files: one by one they take longer than all else
        part.replace(folder)
    except OSError as error:
        raise FovealError(f"cannot write {folder}: {error.strerror or error}; choose another name") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
