"""Which sentence pairs can be learned from.

Every bad one is counted, the first of each kind are named by file and line, and then it is left out, or all is
refused, as the caller chose. Of a val or test that was given every pair is kept that can be scored: to leave out what
is hard would flatter the score. What is bad about them is reported all the same.

    empty              nothing, or only spaces, on one side
    not UTF-8          bytes in another encoding, or the sign � of text that was damaged before
    control characters
    too long           more than `max_length` words, or 10 · `max_length` characters, on one side
    lengths apart      one side has more than `ratio` times the characters of the other, and SLACK more: no translation
    no reference       of a given val or test: a line without a translation to compare with
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from foveal.errors import FovealError, expect, expect_integer, is_number, short_repr, unknown

CHOICES = ("drop", "refuse")
HARD = ("too long", "lengths apart")  # bad to learn from, and no fault of a test
UNSCORED = "no reference"
NAMED = 3  # of each kind
SLACK = 24  # characters: "Yes." may become a sentence
CHARACTERS = 10  # per word: languages without spaces have a limit, too
# but tab, line feed and next line, which are spaces here
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f]")

Text = bytes | str | None  # as it stands in a file; None: not there


class Row(NamedTuple):
    line: int
    split: str  # "": of whatever split the file is
    source: Text
    target: Text
    fault: str = ""  # what a reader could not make sense of


class Pair(NamedTuple):
    split: str
    source: str
    target: str
    words: int  # on both sides
    longest: int  # words of the longer side


@dataclass
class PairFilter:
    """Lets good pairs through, with single spaces and composed characters, and remembers the others."""

    bad: str = "drop"
    max_length: int = 250
    ratio: float = 6.0
    counts: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)  # bad, but of a val or test that was given
    places: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.bad not in CHOICES:
            raise unknown("way with bad pairs", str(self.bad), CHOICES)
        expect_integer(self.max_length, "max_length")
        expect(is_number(self.ratio) and self.ratio >= 1, "ratio", "a number from 1", short_repr(self.ratio))

    def through(self, rows: Iterable[Row], files: tuple[str, str], split: str = "") -> Iterator[Pair]:
        """The good pairs. files: where the source and the target stand.

        They may be the same. split: of rows that do not say theirs.
        """
        for row in rows:
            evaluated = (row.split or split) not in ("", "train")
            try:
                source, source_words = self._side(row.source, row.fault, 0)
                target, target_words = self._side(row.target, "", 1)
                short, long = sorted((len(source), len(target)))
                if long > self.ratio * short + SLACK:
                    raise _BadSideError("lengths apart", int(len(target) == long))
            except _BadSideError as problem:
                if not evaluated:
                    self._remember(self.counts, problem.kind, f"{files[problem.side]} line {row.line}")
                    continue
                source, target = _mended(row.source), _mended(row.target)
                if row.fault or not target:
                    self._remember(self.counts, row.fault or UNSCORED, f"{files[1]} line {row.line}")
                    continue
                self._remember(self.kept, problem.kind, f"{files[problem.side]} line {row.line}")
                source_words, target_words = len(source.split()), len(target.split())
            yield Pair(row.split, source, target, source_words + target_words, max(source_words, target_words))

    def notes(self) -> list[str]:
        """A sentence for each kind of bad pair."""
        dropped = [
            f"{count} pairs left out, {kind}: {self._places(self.counts, kind)}" for kind, count in self.counts.items()
        ]
        note = "pairs of a given val or test kept, as a score without them would flatter"
        return dropped + [
            f"{count} {note}, {kind}: {self._places(self.kept, kind)}" for kind, count in self.kept.items()
        ]

    def finish(self) -> None:
        """Refuse, if there is a reason and the caller chose so. At the end: one line then reports all."""
        faults = [(self.counts, kind) for kind in self.counts] + [
            (self.kept, kind) for kind in self.kept if kind not in HARD
        ]
        if self.bad == "refuse" and faults:
            found = "; ".join(f"{counts[kind]} {kind} ({self._places(counts, kind)})" for counts, kind in faults)
            raise FovealError(
                f"sentence pairs: expected none that is bad, got {found}; mend them, or leave them out (--bad drop)"
            )

    def _side(self, text: Text, fault: str, side: int) -> tuple[str, int]:
        if fault:
            raise _BadSideError(fault, side)
        if isinstance(text, bytes):
            try:
                text = text.decode()
            except UnicodeDecodeError:
                raise _BadSideError("not UTF-8", side) from None
        text = text or ""
        if not text.isascii():
            if "�" in text or any("\ud800" <= character <= "\udfff" for character in text):
                raise _BadSideError("not UTF-8", side)
            text = unicodedata.normalize("NFC", text)
        words = text.split()
        if not words:
            raise _BadSideError("empty", side)
        if not text.isprintable() and CONTROL.search(text.rstrip("\r\n")):
            raise _BadSideError("control characters", side)
        if len(words) > self.max_length or len(text) > CHARACTERS * self.max_length:
            raise _BadSideError("too long", side)
        return " ".join(words), len(words)

    def _remember(self, counts: dict[str, int], kind: str, place: str) -> None:
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] <= NAMED:
            self.places.setdefault(self._key(counts, kind), []).append(place)

    def _places(self, counts: dict[str, int], kind: str) -> str:
        return ", ".join(self.places[self._key(counts, kind)]) + (", …" if counts[kind] > NAMED else "")

    def _key(self, counts: dict[str, int], kind: str) -> str:
        return f"kept, {kind}" if counts is self.kept else kind


class _BadSideError(Exception):
    def __init__(self, kind: str, side: int) -> None:
        super().__init__(kind)
        self.kind, self.side = kind, side


def _mended(text: Text) -> str:
    """As near to what stands there as text can be: what is no UTF-8 becomes �."""
    text = text.decode(errors="replace") if isinstance(text, bytes) else text or ""
    text = "".join("�" if "\ud800" <= character <= "\udfff" else character for character in text)
    return " ".join(unicodedata.normalize("NFC", text).split())
