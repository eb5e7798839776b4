"""Rows of sentence pairs out of files, one at a time, plain or gzip:

    two files   line i of one is the translation of line i of the other
    tsv         two columns, a third for the split if there is one; a header names them. Quotation marks are text
    jsonl       one object per line: {"en": …, "de": …}, or {"translation": {"en": …, "de": …}}; "split" if there is one

Lines end at a line feed and nowhere else: the other line breaks of Unicode may stand inside a sentence, and would
shift one file against the other.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from foveal.data.filter_pairs import Row
from foveal.data.table import WORDS
from foveal.errors import FovealError, expect, expect_plain_file, reading, short_repr

LANGUAGE = re.compile(r"[a-z]{2,3}([-_][A-Za-z]{2,4})?")
NO_LANGUAGE = {
    "txt",
    "tsv",
    "csv",
    "gz",
    "md",
    "py",
    "log",
    "zip",
    "tar",
    "bz2",
    "xz",
    "xml",
    "pdf",
    "npy",
    "bin",
    "tmp",
    "bak",
    "doc",
    "ids",
}
SIDES = ("source", "target")  # what the languages are called where nothing names them
SPLIT = "split"
_SOURCES, _TARGETS = ("source", "src"), ("target", "tgt", "trg")
_MARKS_OF_16 = (b"\xff\xfe", b"\xfe\xff")


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file with their ends; what is gzip is known by its first bytes, not by its name."""
    expect_plain_file(path)
    with reading(path), path.open("rb") as raw:
        first = raw.peek(2)[:2]
        if first in _MARKS_OF_16:
            raise FovealError(f"{path}: expected UTF-8 text, got UTF-16; convert it with iconv -f UTF-16 -t UTF-8")
        if first != b"\x1f\x8b":
            yield from _without_mark(raw)
            return
        try:
            with gzip.open(raw) as unpacked:
                yield from _without_mark(unpacked)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise FovealError(
                f"{path}: expected a complete gzip file, got a damaged one ({error}); fetch it again"
            ) from None


def aligned(source: Path, target: Path) -> Iterator[Row]:
    """Two files, line by line; as many lines in both, or nothing can be trusted."""
    ours, theirs = 0, 0
    for number, (left, right) in enumerate(zip_longest(lines(source), lines(target)), start=1):
        ours, theirs = ours + (left is not None), theirs + (right is not None)
        if left is not None and right is not None:
            yield Row(number, "", left, right)
    expect(
        ours == theirs,
        f"{source}, {target}",
        "as many lines in both",
        f"{ours} and {theirs}",
        "find the line from which they do not match",
    )


def language(path: Path) -> str:
    """The language that a file's ending names: de of train.de.gz; "" if it names none."""
    name = path.name.removesuffix(".gz")
    ending = name.rpartition(".")[2] if "." in name else ""
    return ending if LANGUAGE.fullmatch(ending) and ending not in NO_LANGUAGE else ""


def in_name(name: str) -> tuple[str, ...]:
    """The two languages that a name has, in their order: ("de", "en") of wmt.de-en; () if it has none."""
    found = re.findall(r"(?<![A-Za-z])([a-z]{2})[-_]([a-z]{2})(?![A-Za-z])", name)
    return found[-1] if found else ()


def tsv(path: Path, source: str | None, target: str | None) -> tuple[tuple[str, str], Iterator[Row]]:
    """Languages and rows."""
    top, first = next(((number, line) for number, line in enumerate(lines(path), start=1) if line.strip()), (0, b""))
    cells = _cells(first)
    expect(
        len(cells) > 1, str(path), "columns with tabs between them", "an empty file" if not cells[0] else "one column"
    )
    header = _is_header(cells, source, target)
    if header:
        names = [cell.strip() for cell in cells]
        languages = choose([name for name in names if name.lower() != SPLIT], source, target, str(path))
    else:
        names = _unnamed(path, cells, source, target)
        languages = (names[0], names[1]) if names[0] != SPLIT else (names[1], names[2])
    places = [names.index(name) for name in languages]
    split = next((place for place, name in enumerate(names) if name.lower() == SPLIT), None)

    def each() -> Iterator[Row]:
        for number, line in enumerate(lines(path), start=1):
            if not line.strip() or (header and number == top):
                continue
            parts = line.rstrip(b"\r\n").split(b"\t")
            if len(parts) != len(names):
                yield Row(number, "", None, None, f"not {len(names)} columns")
                continue
            own = "" if split is None else split_of(parts[split].decode(errors="replace"), path, number)
            yield Row(number, own, parts[places[0]], parts[places[1]])

    return languages, each()


def jsonl(path: Path, source: str | None, target: str | None) -> tuple[tuple[str, str], Iterator[Row]]:
    """Languages and rows."""
    first = next((line for line in lines(path) if line.strip()), b"")
    _, texts = _object(first)
    expect(
        texts is not None,
        f"{path}, its first line",
        "an object with a sentence for each of two languages",
        short_repr(first[:60].decode(errors="replace").strip()),
    )
    assert texts is not None
    names = [name for name, value in texts.items() if isinstance(value, str) and name.lower() != SPLIT]
    spoken = [name for name in names if LANGUAGE.fullmatch(name) and name != "id"]
    languages = choose(spoken if len(spoken) > 1 else names, source, target, str(path))

    def each() -> Iterator[Row]:
        for number, line in enumerate(lines(path), start=1):
            if not line.strip():
                continue
            record, texts = _object(line)
            if texts is None:
                yield Row(number, "", None, None, "not a JSON object")
                continue
            own = split_of(str(record.get(SPLIT) or ""), path, number)
            pair = [texts.get(name) for name in languages]
            fault = next(
                (
                    f"no text for {name}"
                    for name, text in zip(languages, pair, strict=True)
                    if not isinstance(text, str)
                ),
                "",
            )
            yield Row(number, own, pair[0], pair[1], fault)

    return languages, each()


def choose(names: list[str], source: str | None, target: str | None, where: str) -> tuple[str, str]:
    """Source and target among the languages that there are, in the order in which they were found."""
    advice = "choose with --source and --target"
    for what, name in (("source", source), ("target", target)):
        expect(name is None or name in names, what, f"a language of {where}: {', '.join(names)}", name)
    expect(source is None or source != target, "target", "another language than the source", target)
    left = [name for name in names if name not in (source, target)]
    needed = (source is None) + (target is None)
    few = f"{len(names)} ({', '.join(names) or 'none'})"
    expect(len(names) >= 2, where, "two languages", few, "name the files as train.en and train.de")
    expect(needed == 0 or len(left) == needed, where, "two languages", few, advice)
    return source or left[0], target or left[-1]


def split_of(word: str, path: Path, number: int) -> str:
    """train, val or test; "" if nothing is given."""
    word = word.strip().lower()
    word = "val" if word == "dev" else word
    expect(word in WORDS, f"{path}, line {number}", "train, val or test as the split", short_repr(word))
    return ("train", "val", "test", "")[WORDS[word]]


def _without_mark(raw: Iterator[bytes]) -> Iterator[bytes]:
    for line in raw:
        yield line.removeprefix(b"\xef\xbb\xbf")
        break
    yield from raw


def _cells(line: bytes) -> list[str]:
    return line.decode(errors="replace").rstrip("\r\n").split("\t")


def _is_header(cells: list[str], source: str | None, target: str | None) -> bool:
    """A first line of names: those asked for, or words that name a language or a side, all different."""
    names = [cell.strip() for cell in cells]
    asked = [name for name in (source, target) if name is not None]
    if asked and all(name in names for name in asked):
        return True
    sides = [name for name in names if LANGUAGE.fullmatch(name) or name.lower() in (*_SOURCES, *_TARGETS)]
    return len(set(names)) == len(names) and len(sides) >= 2


def _unnamed(path: Path, cells: list[str], source: str | None, target: str | None) -> list[str]:
    """Names for the columns of a table without a header: source, target, and a split where the first line has one."""
    known = in_name(path.name.lower()) or SIDES
    names = [source or known[0], target or known[1]]
    if len(cells) == 2:
        return names
    places = [place for place, cell in enumerate(cells) if cell.strip().lower() in {*WORDS, "dev"} - {""}]
    fits = len(cells) == 3 and len(places) == 1 and places[0] != 1
    expect(
        fits,
        str(path),
        "two columns, and one for the split, or a header",
        f"{len(cells)} columns",
        "name the columns in a first line",
    )
    return [SPLIT, *names] if places[0] == 0 else [*names, SPLIT]


def _object(line: bytes) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The object of a line, and the part of it that holds the sentences."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}, None
    if not isinstance(record, dict):
        return {}, None
    texts = record.get("translation", record)
    return record, texts if isinstance(texts, dict) else None
