"""Sentences and their translations, as every part of foveal sees them.

Read_parallel finds out what a name or a path is, and reads it.

    grammar, grammar:N, grammar:N:SEED    sentences that a grammar makes, no download
    a folder                              train.en, train.de, val.* (or valid, dev), test*.*;
                                          or train.tsv, train.jsonl and their like
    a.en,a.de                             two files, line by line
    a .tsv or .jsonl file

All of them plain or gzip. Where no split is given, val and test are taken by a hash of the source sentence: the same
every time, and a sentence that comes twice is on one side only. A val or test that is given is kept whole, hard
sentences included: filter_pairs.py.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.data.filter_pairs import PairFilter, Row
from foveal.data.parallel_files import SIDES, aligned, choose, in_name, jsonl, language, tsv
from foveal.data.splits import SPLITS
from foveal.errors import FovealError, expect, expect_plain_file, reading
from foveal.file_names import expanded

MAX_LENGTH = 250  # words of a sentence to learn from
SHARE, MOST = 0.05, 2000  # of all sentences, and sentences: val and test each, where nobody gave them
BEGINNINGS = {
    "train": "train",
    "val": "val",
    "dev": "val",
    "newsdev": "val",
    "test": "test",
    "tst": "test",
    "newstest": "test",
}
TABLES = {".tsv": tsv, ".jsonl": jsonl, ".ndjson": jsonl}

Stream = tuple[str, tuple[str, str], Iterator[Row]]  # its split, the files of both sides, its rows


@dataclass(frozen=True, eq=False)
class Pairs:
    """Sentence i of the source and its translation."""

    source: list[str]
    target: list[str]

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, eq=False)
class Parallel:
    name: str
    format: str
    languages: tuple[str, str]  # source, target
    splits: dict[str, Pairs]  # train, val, test, and further tests under their own names
    words: float  # per sentence, on average
    longest: int  # words of the longest sentence
    dropped: dict[str, int]  # why → how many pairs
    notes: tuple[str, ...] = ()  # what was left out, guessed or made: a sentence each

    def __len__(self) -> int:
        return sum(map(len, self.splits.values()))

    def describe(self) -> str:
        """The set in one line."""
        sizes = " · ".join(f"{split} {len(pairs)}" for split, pairs in self.splits.items())
        left = f", {sum(self.dropped.values())} left out" if self.dropped else ""
        source, target = self.languages
        return (
            f"{self.name}: {self.format}, {source} → {target}, {sizes} pairs, {self.words:.1f} words per sentence, "
            f"longest {self.longest}{left}"
        )

    @property
    def folds(self) -> int:
        """None: sentences have one division into splits."""
        return 0

    def summary(self) -> str:
        """The one line, and under it what was left out, guessed or made."""
        return "\n  ".join([self.describe(), *self.notes])

    def fingerprint(self) -> str:
        """Of languages, sentences and splits, in their order."""
        digest = hashlib.sha256("\t".join(self.languages).encode())
        for split, pairs in self.splits.items():
            digest.update(f"\n\n{split}\n".encode())
            for side in (pairs.source, pairs.target):
                digest.update("\n".join(side).encode() + b"\n\n")
        return digest.hexdigest()[:16]

    def facts(self) -> dict[str, Any]:
        """What a run folder keeps of its data: plain values that JSON can hold."""
        return {
            "name": self.name,
            "format": self.format,
            "languages": list(self.languages),
            "splits": {split: len(pairs) for split, pairs in self.splits.items()},
            "words": round(self.words, 2),
            "longest": self.longest,
            "dropped": dict(self.dropped),
            "notes": list(self.notes),
            "fingerprint": self.fingerprint(),
        }


def read_parallel(
    where: str,
    *,
    source: str | None = None,
    target: str | None = None,
    bad: str = "drop",
    max_length: int = MAX_LENGTH,
    ratio: float = 6.0,
) -> Parallel:
    """Read a set.

    `source` and `target` choose languages, or name those of files that do not. `bad` pairs are left out (drop) or are
    an error (refuse): see PairFilter, which `max_length` (words) and `ratio` (of characters) are for.
    """
    where, pair_filter, notes = str(where), PairFilter(bad, max_length, ratio), list[str]()
    if where.partition(":")[0] == "grammar" and not Path(where).exists():
        from foveal.data.grammar import read_grammar

        for what, asked, given in (("source", source, "en"), ("target", target, "de")):
            expect(asked in (None, given), what, f"{given}: the grammar's languages are en and de", asked)
        return _gathered("grammar", "made by a grammar", ("en", "de"), read_grammar(where), pair_filter, notes)
    path = expanded(where)
    with reading(where):
        if path.is_dir():
            name = path.resolve().name
            return _gathered(name, *_folder(path, source, target, notes), pair_filter, notes)
        if path.exists() or "," not in where:
            return _gathered(_stem(path), *_table(path, source, target), pair_filter, notes)
        return _gathered(*_two_files(where, source, target), pair_filter, notes)


def _folder(
    folder: Path, source: str | None, target: str | None, notes: list[str]
) -> tuple[str, tuple[str, str], list[Stream]]:
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    stems: dict[str, dict[str, Path]] = {}
    for path in files:
        if spoken := language(path):
            stems.setdefault(path.name.removesuffix(".gz").removesuffix(f".{spoken}"), {}).setdefault(spoken, path)
    stems = {stem: files_of for stem, files_of in stems.items() if len(files_of) > 1}
    if not stems:
        return _tables(folder, [path for path in files if _kind(path) in TABLES], source, target, notes)
    named = _named_splits(folder, list(stems), notes)
    first = next(iter(named))
    languages = _direction(list(stems[first]), (first, folder.resolve().name), source, target, str(folder))
    lacking = [stem for stem in named if not set(languages) <= set(stems[stem])]
    expect(
        not lacking,
        str(folder),
        f"{' and '.join(languages)} of every split",
        f"{', '.join(lacking)} without one of them",
    )
    pairs = [(split, stems[stem][languages[0]], stems[stem][languages[1]]) for stem, split in named.items()]
    return (
        "parallel files",
        languages,
        [(split, (ours.name, theirs.name), aligned(ours, theirs)) for split, ours, theirs in pairs],
    )


def _tables(
    folder: Path, files: list[Path], source: str | None, target: str | None, notes: list[str]
) -> tuple[str, tuple[str, str], list[Stream]]:
    expect(
        bool(files), str(folder), "pairs of files such as train.en and train.de, or train.tsv, or train.jsonl", "none"
    )
    paths = {_stem(path): path for path in files}
    streams: list[Stream] = []
    languages: tuple[str, str] | None = None
    for stem, split in _named_splits(folder, list(paths), notes).items():
        path = paths[stem]
        found, rows = TABLES[_kind(path)](path, source, target)
        languages = languages or found
        expect(found == languages, str(path), f"{' and '.join(languages)}, as in the other files", " and ".join(found))
        streams.append((split, (path.name, path.name), rows))
    assert languages is not None
    return f"{_kind(files[0])[1:]} files", languages, streams


def _table(path: Path, source: str | None, target: str | None) -> tuple[str, tuple[str, str], list[Stream]]:
    expect(
        path.exists(),
        str(path),
        "grammar, a folder, two files as a.en,a.de, or a .tsv or .jsonl file that exists",
        "nothing there",
    )
    expect(
        _kind(path) in TABLES,
        str(path),
        "a folder, a .tsv or a .jsonl file",
        "one file alone",
        "give two files as a.en,a.de",
    )
    languages, rows = TABLES[_kind(path)](path, source, target)
    return _kind(path)[1:], languages, [("", (path.name, path.name), rows)]


def _two_files(where: str, source: str | None, target: str | None) -> tuple[str, str, tuple[str, str], list[Stream]]:
    paths = [expanded(part.strip()) for part in where.split(",")]
    expect(len(paths) == 2, where, "two files with a comma between them", f"{len(paths)}")
    for path in paths:
        there = path.exists() and not path.is_dir()
        expect(there, str(path), "a file that exists", "a folder" if path.is_dir() else "nothing there")
        expect_plain_file(path)
    names = [language(path) or _stem(path) for path in paths]
    if names[0] == names[1]:
        names = list(SIDES)
    stems = [path.name.removesuffix(".gz").removesuffix(f".{name}") for path, name in zip(paths, names, strict=True)]
    name = stems[0] if stems[0] == stems[1] else paths[0].resolve().parent.name
    languages = (source or names[0], target or names[1])
    turned = languages == (names[1], names[0])  # asked for the other way round
    ours, theirs = paths[::-1] if turned else paths
    expect(
        languages[0] != languages[1],
        "target",
        "another language than the source",
        languages[1],
        "give both --source and --target",
    )
    return name, "two files", languages, [("", (ours.name, theirs.name), aligned(ours, theirs))]


def _named_splits(folder: Path, stems: list[str], notes: list[str]) -> dict[str, str]:
    """Stem → split, those for training first: all of them are put together.

    The first val and test are the ones; others keep their names.
    """
    found = {stem: _split_of_stem(stem) for stem in sorted(stems)}
    if not any(found.values()):
        expect(
            len(found) == 1,
            str(folder),
            "names that begin with train, val or test",
            ", ".join(sorted(stems)),
            "rename the files",
        )
        return dict.fromkeys(found, "")
    if unused := [stem for stem, split in found.items() if not split]:
        notes.append(f"not read, since their names begin with none of train, val and test: {', '.join(unused)}")
    named = {stem: split for stem, split in found.items() if split == "train"}
    for wanted in ("val", "test"):
        several = [stem for stem, split in found.items() if split == wanted]
        named |= {stem: wanted if place == 0 else stem for place, stem in enumerate(several)}
        if len(several) > 1:
            notes.append(f"{wanted} is {several[0]}; the others keep their names: {', '.join(several[1:])}")
    return named


def _split_of_stem(stem: str) -> str:
    return next((split for beginning, split in BEGINNINGS.items() if stem.lower().startswith(beginning)), "")


def _direction(
    found: list[str], names: tuple[str, ...], source: str | None, target: str | None, where: str
) -> tuple[str, str]:
    """From which language to which: as asked, as a name has it (de-en), or from English."""
    if source is None and target is None and len(found) == 2:
        named = next((pair for name in names if set(pair := in_name(name)) == set(found)), ())
        expect(
            bool(named) or "en" in found,
            where,
            "a source and a target",
            " and ".join(found),
            "choose with --source and --target",
        )
        source = named[0] if named else "en"
    return choose(sorted(found), source, target, where)


def _kind(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _stem(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).stem


def _gathered(
    name: str, kind: str, languages: tuple[str, str], streams: list[Stream], pair_filter: PairFilter, notes: list[str]
) -> Parallel:
    lists: dict[str, Pairs] = {split: Pairs([], []) for split in ("", *SPLITS)}
    words = most = 0
    for split, files, rows in streams:
        for pair in pair_filter.through(rows, files, split):
            pairs = lists.setdefault(pair.split or split, Pairs([], []))
            pairs.source.append(pair.source)
            pairs.target.append(pair.target)
            words, most = words + pair.words, max(most, pair.longest)
    pair_filter.finish()
    count = sum(map(len, lists.values()))
    if not count:
        found = ", ".join(f"{number} {kind}" for kind, number in pair_filter.counts.items()) or "none"
        raise FovealError(f"{name}: expected sentence pairs, got no good one ({found})")
    notes += [*pair_filter.notes(), *_divide(name, lists)]
    splits = {split: pairs for split, pairs in lists.items() if len(pairs)}
    expect("train" in splits, name, "pairs for training", " · ".join(splits))
    return Parallel(
        name,
        kind,
        languages,
        splits,
        words / (2 * count),
        most,
        dict(pair_filter.counts),
        (*notes, *_crossing(splits), *_copies(splits)),
    )


def _divide(name: str, lists: dict[str, Pairs]) -> list[str]:
    """Make the splits that nobody gave, in place; notes on it."""
    unsplit = lists.pop("")
    if not any(map(len, lists.values())):
        lists["train"], wanted = unsplit, ["val", "test"]
    elif len(unsplit):
        return [f"{len(unsplit)} pairs are in no split"]
    elif len(lists["train"]) and not len(lists["val"]):
        wanted = ["val"] if len(lists["test"]) else ["val", "test"]
    else:
        return []
    everything = lists["train"]
    # in the order of their hash, which is random
    keys, sentence = np.unique(_hashes(everything.source), return_inverse=True)
    expect(
        len(keys) > len(wanted), name, f"at least {len(wanted) + 1} different sentences, to make splits of", len(keys)
    )
    each = min(MOST, max(1, round(SHARE * len(keys))))
    part = sentence // each  # 0, 1, … and whatever is beyond `wanted` trains
    for place, split in enumerate([*wanted, "train"]):
        rows = np.flatnonzero(part == place if split != "train" else part >= place).tolist()
        lists[split] = Pairs([everything.source[row] for row in rows], [everything.target[row] for row in rows])
    return [f"no {' and no '.join(wanted)} was given: {each} different sentences each, by their hash"]


def _hashes(sentences: list[str]) -> NDArray[np.uint64]:
    """(N,): equal for sentences that differ in capitals only."""
    digests = b"".join(hashlib.blake2b(sentence.casefold().encode(), digest_size=8).digest() for sentence in sentences)
    return np.frombuffer(digests, ">u8").astype(np.uint64)


def _crossing(splits: dict[str, Pairs]) -> list[str]:
    """Sentences that a model has seen before it is tested with them."""
    known = set(splits["train"].source)
    found = {
        split: sum(sentence in known for sentence in pairs.source)
        for split, pairs in splits.items()
        if split != "train"
    }
    return [f"{count} source sentences of {split} are in train, too" for split, count in found.items() if count]


def _copies(splits: dict[str, Pairs]) -> list[str]:
    """One file given twice: whatever is trained on it learns to copy."""
    same = all(
        source == target for pairs in splits.values() for source, target in zip(pairs.source, pairs.target, strict=True)
    )
    return ["source and target are the same in every pair: there is nothing to translate"] if same else []
