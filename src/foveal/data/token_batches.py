"""Batches of sentence pairs by their number of tokens: short sentences come many at a time, long ones few,
and little is padding.

    width of a pair    = the longer of its two sides, with its mark
    size of a batch    = its pairs · its widest pair  ≤  tokens

Pairs are put in the order of their width, and the order is cut greedily. Where it is cut depends on the widths alone,
so that every epoch has as many batches; which of the pairs of one width come together, and when a batch has its turn,
is a function of seed and epoch. A run that was killed goes on as if it had not been. Every process of a distributed
run takes its own slice of each batch.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional

from foveal.data.parallel import Pairs
from foveal.errors import expect, expect_integer
from foveal.runtime.vocabulary import BEGIN, END, PAD, Vocabulary

AT_A_TIME = 16384  # sentences that are encoded together


class TextBatch(NamedTuple):
    source: Tensor  # (B, M) int64: the sentence, the end mark, padding
    target_in: Tensor  # (B, N) int64: the begin mark, the sentence, padding
    target_out: Tensor  # (B, N) int64: the sentence, the end mark, padding
    places: Tensor  # (T,) int64: where target_out, laid flat, is no padding: what has no loss is never computed


@dataclass(frozen=True, eq=False)
class Tokens:
    """N rows of numbers in one array: row i is values[offsets[i] : offsets[i + 1]]."""

    values: NDArray[np.int32]
    offsets: NDArray[np.int64]  # (N + 1,)

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> "Tokens":
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        return cls(np.fromiter((number for row in rows for number in row), np.int32, int(offsets[-1])), offsets)

    @classmethod
    def encoded(cls, sentences: Sequence[str], vocabulary: Vocabulary) -> "Tokens":
        """Some at a time: as lists of numbers, a million sentences would take a gigabyte."""
        parts = [
            cls.of(vocabulary.encode(sentences[start : start + AT_A_TIME]))
            for start in range(0, len(sentences), AT_A_TIME)
        ]
        lengths = np.concatenate([np.zeros(1, np.int64), *(part.lengths for part in parts)])
        return cls(np.concatenate([np.zeros(0, np.int32), *(part.values for part in parts)]), np.cumsum(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[np.int32]:
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def rows(self, indices: NDArray[np.integer], before: int, pad: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """These rows, right-padded and with one place more for a mark: (B, L + 1), the row from place `before` on.

        And their lengths (B,).
        """
        starts = self.offsets[indices]
        lengths = self.offsets[np.asarray(indices) + 1] - starts
        place = np.arange(int(lengths.max(initial=0)) + 1) - before  # (L + 1,)
        inside = (place >= 0) & (place < lengths[:, None])
        filled = np.full(inside.shape, pad, np.int64)
        filled[inside] = self.values[(starts[:, None] + place)[inside]]
        return filled, lengths


@dataclass(frozen=True, eq=False)
class TokenPairs:
    """N sentence pairs as numbers; `pairs[indices]` are some of them, and copy nothing."""

    source: Tokens
    target: Tokens
    indices: NDArray[np.int64] | None = None  # None: all

    def __post_init__(self) -> None:
        expect(
            len(self.source) == len(self.target),
            "pairs",
            f"as many targets as the {len(self.source)} sources",
            len(self.target),
        )

    @classmethod
    def of(cls, source: Sequence[Sequence[int]], target: Sequence[Sequence[int]]) -> "TokenPairs":
        return cls(Tokens.of(source), Tokens.of(target))

    @classmethod
    def encoded(cls, pairs: Pairs, source: Vocabulary, target: Vocabulary) -> "TokenPairs":
        return cls(Tokens.encoded(pairs.source, source), Tokens.encoded(pairs.target, target))

    def __len__(self) -> int:
        return len(self.source) if self.indices is None else len(self.indices)

    def __getitem__(self, indices: ArrayLike) -> "TokenPairs":
        chosen = np.asarray(indices, np.int64)
        return TokenPairs(self.source, self.target, chosen if self.indices is None else self.indices[chosen])


def collate(pairs: TokenPairs, pad: int = PAD, begin: int = BEGIN, end: int = END) -> TextBatch:
    """Pairs as tensors."""
    chosen = np.arange(len(pairs)) if pairs.indices is None else pairs.indices
    rows = np.arange(len(chosen))
    source, lengths = pairs.source.rows(chosen, 0, pad)
    source[rows, lengths] = end
    target_in, _ = pairs.target.rows(chosen, 1, pad)
    target_in[:, 0] = begin
    target_out, lengths = pairs.target.rows(chosen, 0, pad)
    target_out[rows, lengths] = end
    places = np.flatnonzero(np.arange(target_out.shape[1]) <= lengths[:, None])
    return TextBatch(*map(torch.from_numpy, (source, target_in, target_out, places)))


def bucketed(
    batch: TextBatch, tokens: int, max_positions: int | None = None, pad: int = PAD, end: int = END
) -> tuple[Tensor, Tensor, Tensor]:
    """source, target_in and target_out of a batch of at most `tokens` tokens, padded so that there are few shapes of
    them: a width is even (unless there are only `max_positions`), and has as many rows as its batches may have. Empty
    rows have a source of one mark, so that there is something to attend to, and no target.
    """
    wide = max(batch.source.shape[1], batch.target_in.shape[1])
    odd = wide % 2
    width, rows = wide if wide == max_positions else wide + odd, tokens // max(1, wide - 1 + odd)
    expect(
        rows >= len(batch.source),
        "a batch",
        f"at most {rows} pairs, {tokens} tokens",
        f"{len(batch.source)} of width {wide}",
    )

    def padded(part: Tensor) -> Tensor:
        return functional.pad(part, (0, width - part.shape[1], 0, rows - part.shape[0]), value=pad)

    source = padded(batch.source)
    source[len(batch.source) :, 0] = end
    return source, padded(batch.target_in), padded(batch.target_out)


class TokenBatches:
    """Batches of indices, one epoch at a time: a sampler for torch's DataLoader with batch_size=None."""

    def __init__(
        self,
        lengths_source: ArrayLike,
        lengths_target: ArrayLike,
        tokens: int = 4096,
        *,
        sentences: int | None = None,
        seed: int = 0,
        max_length: int | None = None,
        shuffle: bool = True,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        """Lengths without marks. sentences: that many pairs per batch, whatever their tokens. max_length: pairs with a
        side of more tokens, marks not counted, are left out. Without shuffle: short ones first. rank, world: which
        process this is, and of how many.
        """
        self.source, self.target = np.asarray(lengths_source, np.int64) + 1, np.asarray(lengths_target, np.int64) + 1
        same = self.source.ndim == 1 and self.source.shape == self.target.shape
        expect(same, "lengths", "one for each pair on both sides", f"{self.source.shape} and {self.target.shape}")
        expect_integer(tokens, "tokens")
        expect_integer(seed, "seed", least=0)
        expect_integer(world, "world")
        expect_integer(rank, "rank", least=0)
        expect(rank < world, "rank", f"below {world}, the number of processes", rank)
        width = np.maximum(self.source, self.target)
        kept = np.arange(len(width))
        if max_length is not None:
            expect_integer(max_length, "max_length")
            kept = np.flatnonzero(width <= max_length + 1)
        self.left_out = len(width) - len(kept)
        expect(
            len(kept) > 0,
            "pairs",
            "at least one to put into a batch",
            f"none of {len(width)}",
            "give a larger max_length" if len(width) else "",
        )
        if sentences is None:
            widest = int(width[kept].max())
            expect(
                widest <= tokens,
                "tokens",
                f"at least {widest}, the longest sentence with its mark",
                tokens,
                "give more, or give max_length",
            )
        else:
            expect_integer(sentences, "sentences")
        self.seed, self.shuffle, self.rank, self.world, self.epoch = seed, shuffle, rank, world, 0
        self._indices, self._width = kept, width[kept].astype(np.int32)
        self._cuts = _cuts(np.sort(self._width), tokens, sentences)

    def set_epoch(self, epoch: int) -> None:
        """Lightning calls this before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._cuts) - 1

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        for batch in self.batches():
            # In training every process has something to do at every step; in a batch too small for that some pairs
            # come twice.
            part = np.resize(batch, self.world) if self.shuffle and len(batch) < self.world else batch
            yield part[self.rank :: self.world]

    def batches(self) -> list[NDArray[np.int64]]:
        """All batches of this epoch, whole: the same for every process."""
        draw = np.random.default_rng([self.seed, self.epoch])
        mixed = draw.permutation(len(self._indices)) if self.shuffle else np.arange(len(self._indices))
        ordered = self._indices[mixed[np.argsort(self._width[mixed], kind="stable")]]
        turns = draw.permutation(len(self)) if self.shuffle else np.arange(len(self))
        return [ordered[self._cuts[turn] : self._cuts[turn + 1]] for turn in turns.tolist()]

    def padding(self) -> float:
        """The share of this epoch's numbers, on both sides, that is padding."""
        room = sum(len(batch) * int(self.source[batch].max() + self.target[batch].max()) for batch in self.batches())
        return 1 - float((self.source + self.target)[self._indices].sum()) / room

    def summary(self) -> str:
        """One line for a log."""
        sizes = np.diff(self._cuts)
        text = f"{len(self)} batches per epoch, {sizes.min()} to {sizes.max()} pairs each, {self.padding():.1%} padding"
        return f"{text}, {self.left_out} pairs left out as too long" if self.left_out else text


def _cuts(width: NDArray[np.int32], tokens: int, sentences: int | None) -> list[int]:
    """Where to cut pairs in the order of their width: 0, …, N."""
    if sentences is not None:
        return [*range(0, len(width), sentences), len(width)]
    cuts, count, widths = [0], len(width), width.tolist()
    while (start := cuts[-1]) < count:
        # Room grows with every pair, in number and in width: the last end that fits is found by halving.
        ends = range(start + 1, min(count, start + tokens // widths[start]) + 1)
        cuts.append(start + bisect_right(ends, tokens, key=lambda end: (end - start) * widths[end - 1]))
    return cuts
