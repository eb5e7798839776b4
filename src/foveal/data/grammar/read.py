"""grammar, grammar:N, grammar:N:SEED → N different pairs: a twentieth for val, a twentieth for test,
the rest to train.
"""

from collections.abc import Iterator
from itertools import islice

from foveal.data.filter_pairs import Row
from foveal.data.grammar.sentence import sentences
from foveal.errors import expect, short_repr

COUNT, LEAST, MOST = 20000, 20, 1_000_000
SHARE = 20  # one of so many is for val, and one for test


def read_grammar(text: str) -> list[tuple[str, tuple[str, str], Iterator[Row]]]:
    """What parallel.py reads."""
    parts = text.split(":")
    numbers = [int(part) if part.isascii() and part.isdigit() and len(part) < 10 else -1 for part in parts[1:]]
    expect(
        len(numbers) < 3 and min(numbers, default=0) >= 0,
        "grammar",
        "grammar, grammar:N or grammar:N:SEED",
        short_repr(text),
    )
    count, seed = [*numbers, *(COUNT, 0)[len(numbers) :]]
    expect(LEAST <= count <= MOST, "grammar", f"{LEAST} to {MOST} pairs", count)
    return [("", (text, text), _rows(count, seed))]


def _rows(count: int, seed: int) -> Iterator[Row]:
    part = max(1, count // SHARE)
    for place, (english, german) in enumerate(islice(sentences(seed), count)):
        split = "val" if place < part else "test" if place < 2 * part else "train"
        yield Row(place + 1, split, english, german)
