"""What models from one sequence of tokens to another share: marks, padding, embedding tables that may be one,
and the rows of a beam search.

    embed(w) = √C · E_w;   logits = h E_outᵀ + b;   the beams of source s are rows s·beams … (s + 1)·beams − 1

Symbols: C the width, E the tables. Sequences are padded on the right with the id `pad`.
Paper: Ofir Press, Lior Wolf (2017). Using the output embedding to improve language models. EACL. arXiv:1608.05859.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from foveal.core.mask import Mask
from foveal.core.pattern.padding import padding
from foveal.errors import FovealError, expect, expect_integer, is_number, short_repr, unknown

TIED = ("all", "output", "none")
MARKS = ("pad", "begin", "end", "unknown")


class Encoded(NamedTuple):
    """A source as a decoder reads it."""

    memory: Tensor  # (B, M, E)
    mask: Mask | None  # which of the memory may be attended to; None: all of it
    lengths: Tensor  # (B,), the tokens that are no padding


class Tables(nn.Module):
    """One vector for each token: of the source, of the target, and of the output.

    What is tied is one tensor, and lies in a file once.
    """

    def __init__(self, source_vocab: int, target_vocab: int, width: int, tied: str, bias: bool = False) -> None:
        """tied: "all": one table for all three; "output": one for target and output; "none". bias: on the logits."""
        super().__init__()
        self.scale = math.sqrt(width)
        self.source = nn.Embedding(source_vocab, width)
        self.target = None if tied == "all" else nn.Embedding(target_vocab, width)
        self.out = None if tied != "none" else nn.Embedding(target_vocab, width)
        self.bias = nn.Parameter(torch.zeros(target_vocab)) if bias else None
        for table in (self.source, self.target, self.out):
            if table is not None:
                nn.init.normal_(table.weight, std=width**-0.5)  # so that scaled by √C each number is about 1

    @property
    def of_target(self) -> Tensor:
        """(target_vocab, C)."""
        return self.source.weight if self.target is None else self.target.weight

    @property
    def of_output(self) -> Tensor:
        """(target_vocab, C)."""
        return self.of_target if self.out is None else self.out.weight

    def read_source(self, tokens: Tensor) -> Tensor:
        """Tokens (B, M) → (B, M, C)."""
        return functional.embedding(tokens, self.source.weight) * self.scale

    def read_target(self, tokens: Tensor) -> Tensor:
        return functional.embedding(tokens, self.of_target) * self.scale

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, C) → logits (…, target_vocab)."""
        return functional.linear(hidden, self.of_output, self.bias)


class Beams:
    """Who is who in a beam search: R = sources × beams rows, those of one source next to each other."""

    def __init__(self, sources: int, beams: int) -> None:
        self.sources, self.beams = sources, beams

    @property
    def rows(self) -> int:
        return self.sources * self.beams

    def _parents(self, parents: Tensor) -> Tensor:
        """The new order, if it is one: a beam continues a beam of its own source."""
        whose = _indices("the new order of the beams", parents, self.rows)
        expect(
            len(whose) == self.rows,
            "the new order of the beams",
            f"one parent for each of {self.rows} rows",
            tuple(whose.shape),
        )
        if readable(whose):
            own = torch.arange(self.rows) // self.beams
            expect(
                bool((whose // self.beams == own).all()),
                "the new order of the beams",
                "parents of the same source",
                "one of another",
            )
        return whose

    def _kept(self, sources: Tensor) -> tuple[Tensor, Tensor]:
        """The sources that stay, and their rows."""
        kept = _indices("the sources to keep", sources, self.sources)
        rows = (kept[:, None] * self.beams + torch.arange(self.beams, device=kept.device)).flatten()
        self.sources = len(kept)
        return kept, rows


def _indices(what: str, index: Tensor, count: int) -> Tensor:
    if (
        not isinstance(index, Tensor)
        or index.dtype not in (torch.int32, torch.int64)
        or index.dim() != 1
        or not len(index)
    ):
        got = f"{tuple(index.shape)} of {index.dtype}" if isinstance(index, Tensor) else short_repr(index)
        raise FovealError(f"{what}: expected integers in a tensor of one axis, at least one, got {got}")
    if readable(index):
        fits = int(index.min()) >= 0 and int(index.max()) < count
        expect(fits, what, f"numbers from 0 to {count - 1}", f"{int(index.min())} to {int(index.max())}")
    return index


def check_encoded(encoded: Encoded, beams: int = 1) -> None:
    expect_integer(beams, "beams")
    if not isinstance(encoded, Encoded):
        raise FovealError(f"the source: expected what encode() gives, got {short_repr(encoded)}")


def read_lengths(source: Tensor, pad: int) -> Tensor:
    """How many tokens (B,) stand before the padding of each source (B, M)."""
    real = source != pad
    lengths = real.sum(1)
    if readable(source):
        right = bool((real == (torch.arange(source.shape[1]) < lengths[:, None])).all())
        expect(right, "the source", f"padding (id {pad}) on the right only", "padding before a token")
    return lengths


def padding_of(lengths: Tensor, size: int) -> Mask | None:
    """The mask of so many tokens out of `size`; none where it hides nothing, since kernels are faster without."""
    if readable(lengths) and (not len(lengths) or int(lengths.min()) == size):
        return None
    return padding(lengths)


def check_tokens(what: str, tokens: Tensor, count: int, axes: str = "(B, N)") -> None:
    """Raise a FovealError unless these are ids of tokens, of `count` there are."""
    fits = (
        isinstance(tokens, Tensor)
        and tokens.dtype in (torch.int32, torch.int64)
        and tokens.dim() == len(axes.strip("(,)").split(","))
    )
    if not fits:
        got = f"{tuple(tokens.shape)} of {tokens.dtype}" if isinstance(tokens, Tensor) else short_repr(tokens)
        raise FovealError(f"{what}: expected ids of tokens, a tensor {axes} of int64, got {got}")
    if readable(tokens) and tokens.numel():
        least, most = int(tokens.min()), int(tokens.max())
        expect(least >= 0 and most < count, what, f"ids from 0 to {count - 1}", least if least < 0 else most)


def readable(tensor: Tensor) -> bool:
    """Whether a look at the numbers is free: elsewhere it would make the device wait,
    or become a constant of a graph.
    """
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling() and torch._C._get_tracing_state() is None


def check_config(
    name: str, config: Any, sizes: tuple[str, ...], shares: tuple[str, ...], choices: dict[str, Any]
) -> None:
    """Raise a FovealError unless sizes are integers from 1, shares are in [0, 1), choices are known,
    and marks are tokens.
    """
    for size in (*sizes, "source_vocab", "target_vocab"):
        expect_integer(getattr(config, size), f"{name}'s {size}")
    for share in shares:
        value = getattr(config, share)
        expect(is_number(value) and 0 <= value < 1, f"{name}'s {share}", "at least 0 and below 1", short_repr(value))
    for kind, known in (choices | {"tied": TIED}).items():
        value = getattr(config, kind)
        if not isinstance(value, str) or value not in known:
            raise unknown(f"{kind} of {name}", str(value), known)
    fewer = min(config.source_vocab, config.target_vocab)
    for mark in MARKS:
        expect_integer(getattr(config, mark), f"{name}'s {mark}", 0)
        expect(
            getattr(config, mark) < fewer, f"{name}'s {mark}", f"the id of one of {fewer} tokens", getattr(config, mark)
        )
    if config.tied == "all":
        expect(
            config.source_vocab == config.target_vocab,
            f"{name}'s vocabularies",
            "one vocabulary, as tied='all' shares its table",
            f"{config.source_vocab} of the source and {config.target_vocab} of the target",
            "give tied='output'",
        )
