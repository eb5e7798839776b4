"""A translator at work: lines in, translations out, by the same search with torch and without.

Needs tokenizers; no torch is imported here.

model = foveal.load("model.onnx")
model.translate("A dog sleeps.")          # "Ein Hund schläft."
"""

import codecs
import csv
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from foveal.errors import FovealError, expect, expect_plain_file, printable, reading, short_repr
from foveal.runtime.decode.batched import AHEAD, decode_all, max_positions
from foveal.runtime.decode.engine import Engine
from foveal.runtime.decode.search import Sentence
from foveal.runtime.paths import STDIN
from foveal.tasks.task import Predictor
from foveal.tasks.translate.card import TranslateCard
from foveal.tasks.translate.options import PredictOptions

if TYPE_CHECKING:
    from foveal.runtime.vocabulary import Vocabulary

FILE_NAME = re.compile(r"\S*(/|\.[A-Za-z]\w{0,4}$)\S*")  # a word that looks like a path, and is no sentence


@dataclass(frozen=True)
class Line:
    """One line of a file, or a sentence by itself."""

    text: str
    file: str = ""  # where it stands; nothing for a sentence
    number: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.number}" if self.file else self.text


@dataclass(frozen=True)
class Candidate:
    text: str
    score: float  # log P, divided by the length penalty


@dataclass(frozen=True)
class Translation:
    """The translation of one line. candidates: the n best of them, the best first."""

    file: str
    source: str
    text: str
    score: float
    candidates: tuple[Candidate, ...] = ()
    error: str = ""


class TranslatePredictor(Predictor):
    noun = "line"

    def __init__(self, engine: Engine, card: TranslateCard, options: PredictOptions, name: str = "the model") -> None:
        from foveal.runtime.vocabulary import both_from

        expect(bool(card.vocabulary), name, "a model with its vocabulary", "one without")
        self.engine, self.options = engine, options
        self.source, self.target = both_from(card.vocabulary)
        known = max_positions(card.config)
        self.limit = options.max_source_length if known is None else min(options.max_source_length, known)
        self.search = options.search(known)
        self.count = 0  # lines so far: their numbers seed the sampling

    def translate(self, lines: Iterable[str]) -> list[str]:
        """The best translation of each line."""
        got, do = self.options.n_best, "predict gives every candidate"
        expect(got == 1, "n_best", "1 where each line has one translation", got, do)
        self.count = 0
        return [candidates[0].text for candidates in self.answers([_line(one).text for one in lines])]

    def answers(self, lines: Sequence[str]) -> list[tuple[Candidate, ...]]:
        """Each line's candidates, the best first."""
        found = self.decoded(lines)
        texts = iter(texts_of(self.target, [one for sentences in found for one in sentences]))
        return [tuple(Candidate(next(texts), one.score) for one in sentences) for sentences in found]

    def decoded(self, lines: Sequence[str]) -> list[list[Sentence]]:
        """Each line's best sentences. Of a line that is too long the first tokens are read, and a warning names it."""
        sources = self.source.encode(lines)
        for place, tokens in enumerate(sources):
            if len(tokens) >= self.limit:
                where = f"line {self.count + place + 1}: {len(tokens):,} tokens"
                print(
                    f"{where}, of which the first {self.limit - 1:,} are read; see --max-source-length",
                    file=sys.stderr,
                    flush=True,
                )
                sources[place] = tokens[: self.limit - 1]
        found = decode_all(self.engine, sources, self.search, self.options.batch, self.count)
        self.count += len(lines)
        return found

    def inputs(self, words: Sequence[str]) -> list[Line]:
        return [line for word in words for line in lines_named(word)]

    def stream(self, null: bool = False) -> Iterator[Line]:
        expect(not null, "--null", "a list of paths on stdin", "lines to translate", "leave it out")
        return (Line(text, STDIN, number) for number, text in enumerate(lines_in(sys.stdin.buffer), 1))

    def predict(self, inputs: Iterable[Any]) -> Iterator[Translation]:
        """One result per line, in their order; batches are sorted by length, where lines need not be waited for."""
        self.count, waiting = 0, map(_line, inputs)
        ahead = (
            self.options.batch * AHEAD
            if isinstance(inputs, Sequence) and self.options.batch > 1
            else self.options.batch
        )
        while part := list(islice(waiting, ahead)):
            for line, candidates in zip(part, self.answers([line.text for line in part]), strict=True):
                yield Translation(str(line), line.text, candidates[0].text, candidates[0].score, candidates)

    def rows(self, form: str, widest: int) -> tuple[str, Callable[[Translation], str]]:
        """With --n-best above 1 there are several rows per line, the best first."""
        if form == "jsonl":
            return "", _json
        if form == "csv":
            return _csv("file", "source", "translation", "score", "error"), _csv_rows
        return f"{'line':{widest}}  translation\n", lambda result: _table_rows(result, widest)


def texts_of(target: "Vocabulary", sentences: Sequence[Sentence]) -> list[str]:
    """Sentences as a person reads them: whatever a model generates is one line, without spaces at its ends."""
    return [" ".join(text.split()) for text in target.decode([one.tokens for one in sentences])]


def lines_named(word: str) -> list[Line]:
    """The lines of a text file; a word that names no file, and does not look like one, is a sentence itself."""
    if os.path.exists(word):  # noqa: PTH110 — a sentence is longer than pathlib lets a name be
        return _lines_of(word)
    expect(not FILE_NAME.fullmatch(word), word, "a text file that exists, or a sentence", "no file of this name")
    return [Line(word)]


def lines_in(stream: IO[bytes]) -> Iterator[str]:
    """Lines as wc counts them, as they come; bytes that are no UTF-8 become �, with one warning."""
    warned = False
    for number, read in enumerate(iter(stream.readline, b""), 1):
        line = (read.removeprefix(codecs.BOM_UTF8) if number == 1 else read).removesuffix(b"\n")
        try:
            yield line.decode()
        except UnicodeDecodeError:
            if not warned:
                print(
                    f"line {number}: expected UTF-8, got other bytes, which are read as �", file=sys.stderr, flush=True
                )
            warned = True
            yield line.decode(errors="replace")


def _line(item: Any) -> Line:
    if isinstance(item, Line):
        return item
    if not isinstance(item, str):
        raise FovealError(f"a line to translate: expected text, got {short_repr(item)}")
    return Line(item)


def _lines_of(file: str) -> list[Line]:
    """Lines end at a line feed and nowhere else; bytes that are no UTF-8 become �."""
    expect_plain_file(file)
    with reading(file):
        content = Path(file).read_bytes().removeprefix(b"\xef\xbb\xbf").decode(errors="replace")
    lines = content.removesuffix("\n").split("\n") if content else []
    expect(bool(lines), file, "a text file with at least one line", "an empty one")
    return [Line(text, file, number) for number, text in enumerate(lines, 1)]


def _json(result: Translation) -> str:
    facts: dict[str, Any] = {"file": result.file, "source": result.source}
    facts |= {"error": result.error} if result.error else {"translation": result.text, "score": round(result.score, 6)}
    if len(result.candidates) > 1:
        facts["n_best"] = [{"translation": one.text, "score": round(one.score, 6)} for one in result.candidates]
    strange = any(0xD800 <= ord(letter) < 0xE000 for letter in result.file + result.source)
    return json.dumps(facts, ensure_ascii=strange) + "\n"


def _csv_rows(result: Translation) -> str:
    return "".join(
        _csv(result.file, result.source, one.text, f"{one.score:.6f}", result.error) for one in result.candidates
    )


def _csv(*cells: str) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


def _table_rows(result: Translation, widest: int) -> str:
    name = printable(" ".join(result.file.split()))
    return "".join(f"{name[:widest]:{widest}}  {printable(one.text)}\n" for one in result.candidates)
