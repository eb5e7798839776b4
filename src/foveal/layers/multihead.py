"""Multi-head attention: several attentions side by side, each on its own projection of the tokens; heads may share
keys and values.

    y = Concat(head_1 … head_H) W_O;   head_i = softmax(Q_i K_g(i)ᵀ/√D) V_g(i);   Q_i = x W_i^Q
    K_g = m W_g^K,  V_g = m W_g^V;   g(i) = ⌊i·G/H⌋

Symbols: B batch, C width, H heads, D = C/H, G heads of keys and values (groups; G = H multi-head, G = 1 multi-query),
    m = x in self-attention and the memory in cross-attention.
Paper: Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz Kaiser, Illia
    Polosukhin (2017). Attention is all you need. NeurIPS. arXiv:1706.03762.
Paper, if self.groups == 1 < self.heads: Noam Shazeer (2019). Fast transformer decoding: one write-head is all you
    need. arXiv:1911.02150.
Paper, if 1 < self.groups < self.heads: Joshua Ainslie, James Lee-Thorp, Michiel de Jong, Yury Zemlyanskiy, Federico
    Lebrón, Sumit Sanghai (2023). GQA: training generalized multi-query transformer models from multi-head checkpoints.
    EMNLP. arXiv:2305.13245.
Departs from the paper: the projections have biases unless bias=False.
Cost: O(N·C² + N·M·C) time; 4·C² parameters with G = H.
Example: MultiHead(14, 7)(x)
"""

from collections.abc import Iterable
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from foveal.core.algebra import Given
from foveal.core.attend import attend
from foveal.core.mask import Mask
from foveal.core.observe import observers, queries_from
from foveal.errors import FovealError, expect, expect_integer, short_repr
from foveal.layers.attention import check_dropout, check_mask, check_tokens, some_outputs
from foveal.layers.cache import Cache, Memory
from foveal.position.position import Position


class MultiHead(nn.Module):
    """Self-attention when called with tokens alone; cross-attention when called with a memory."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        groups: int | None = None,
        key_width: int | None = None,
        head_width: int | None = None,
        position: Position | None = None,
        mask: Mask | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        """groups: heads of keys and values, H unless given. key_width: the memory's width. head_width: D,
        C/H unless given.
        """
        super().__init__()
        groups = heads if groups is None else groups
        for name, number in (
            ("width", width),
            ("heads", heads),
            ("groups", groups),
            ("key_width", key_width),
            ("head_width", head_width),
        ):
            if number is not None or name in ("width", "heads"):
                expect_integer(number, f"MultiHead's {name}")
        expect(
            head_width is not None or width % heads == 0, "MultiHead's heads", f"a divisor of the width {width}", heads
        )
        expect(heads % groups == 0, "MultiHead's groups", f"a divisor of the {heads} heads", groups)
        check_dropout(self, dropout)
        check_mask(self, mask)
        check_position("MultiHead", position)
        self.width, self.heads, self.groups, self.dropout = width, heads, groups, dropout
        self.key_width = width if key_width is None else key_width
        self.head_width = head_width or width // heads
        self.position, self.mask = position, mask
        queries, pairs = heads * self.head_width, 2 * groups * self.head_width
        # Self-attention reads one source, so one product makes q, k and v: on one thread a step of decoding spends 14
        # µs there instead of 27 at width 64, and 84 instead of 103 at width 512. Cross-attention reads two sources,
        # with a product for each.
        self.qkv: nn.Linear | None = None
        if key_width is None:
            self.qkv = nn.Linear(width, queries + pairs, bias)
        else:
            self.q = nn.Linear(width, queries, bias)
            self.kv = nn.Linear(key_width, pairs, bias)
        self.out = nn.Linear(queries, width, bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every W uniform after Glorot and Bengio, each of q, k and v by itself; biases 0."""
        for weight in (*self._parts("weight"), self.out.weight):
            nn.init.xavier_uniform_(weight)
        for bias in (*self._parts("bias"), self.out.bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def forward(
        self,
        query: Tensor,
        memory: Tensor | Memory | None = None,
        *,
        mask: Mask | Tensor | None = None,
        cache: Cache | None = None,
        start: int = 0,
        kernel: str = "auto",
    ) -> Tensor:
        """Tokens (B, N, C), and in cross-attention a memory (B, M, key_width) or a remembered one → (B, N, C).

        cache: keys and values of the tokens before these; the new ones are added to it. start: the position of the
        first query in cross-attention, for a decoder that goes step by step (a cache knows it by itself). A mask
        counts rows from position 0, and a boolean tensor from the first of these queries.
        """
        check_tokens(self, "query", query, self.width, self.out.weight)
        if memory is None:
            if start:
                raise FovealError(
                    f"MultiHead's start: expected 0 in self-attention, got {start}; give a cache, which knows it"
                )
            q, k, v = self._from_one(query)
            if cache is not None:
                if not isinstance(cache, Cache):
                    raise FovealError(f"MultiHead's cache: expected one of new_cache(), got {short_repr(cache)}")
                _check_growth(self.mask, mask)
                start = cache.length
            if self.position is not None:
                q, k = self.position.rotate(q, k, start, start)
            if cache is not None:
                k, v = cache.append(k, v)
        else:
            if cache is not None:
                raise FovealError(
                    "MultiHead's cache: expected none in cross-attention, got one; project the memory once with "
                    "remember()"
                )
            if start:
                expect_integer(start, "MultiHead's start", 0)
            q = self._queries(query, start)
            k, v = memory if isinstance(memory, Memory) else self.remember(memory)
        seen = self._mask(mask, start, q, k)
        term = None if self.position is None else self.position.term(start)
        with queries_from(start) if start and observers else nullcontext():
            y = attend(q, k, v, mask=seen, bias=term, dropout=self.dropout if self.training else 0.0, kernel=kernel)
        return self.out(y.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]  # → (B, N, H·D) → (B, N, C)

    def remember(self, memory: Tensor, values: Tensor | None = None) -> Memory:
        """The keys and values of a memory (B, M, key_width), for as many calls as a decoder makes.

        values: what the values are made of, (B, M, key_width), where it is not what the keys are made of.
        """
        if isinstance(memory, Tensor) and (memory.dim() != 3 or memory.shape[2] != self.key_width):
            raise FovealError(f"MultiHead's memory: expected (B, M, {self.key_width}), got {tuple(memory.shape)}")
        check_tokens(self, "memory", memory, self.key_width, self.out.weight)
        both, first = (self.kv, 0) if self.qkv is None else (self.qkv, self.heads * self.head_width)
        if values is None:
            pairs = self.kv(memory) if self.qkv is None else some_outputs(both, memory, first, None)
            k, v = self._split(pairs).chunk(2, 1)  # (B, G, M, D) each
        else:
            check_tokens(self, "values", values, self.key_width, self.out.weight)
            expect(
                values.shape == memory.shape,
                "MultiHead's values",
                f"{tuple(memory.shape)}, as its keys",
                tuple(values.shape),
            )
            middle = first + self.groups * self.head_width
            k = self._split(some_outputs(both, memory, first, middle))
            v = self._split(some_outputs(both, values, middle, None))
        if self.position is not None:
            k = self.position.rotate(k, k)[1]
        return Memory(k, v)

    def new_cache(self, batch: int, capacity: int) -> Cache:
        """An empty cache that fits this layer."""
        # quantised: it computes in float32 on a CPU
        weight = self.out.weight if isinstance(self.out.weight, Tensor) else torch.empty(0)
        kind = weight.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
        return Cache(batch, self.groups, capacity, self.head_width, dtype=dtype, device=weight.device)

    def drop_heads(self, indices: Iterable[int]) -> None:
        """Cut these heads out, in place: smaller matrices,
        and the result that zeros in place of their outputs would give.
        """
        try:
            dropped = set(indices)
        except TypeError:
            raise FovealError(
                f"MultiHead's heads to drop: expected some of 0 to {self.heads - 1}, got {short_repr(indices)}"
            ) from None
        expect(
            dropped <= set(range(self.heads)),
            "MultiHead's heads to drop",
            f"0 to {self.heads - 1}",
            short_repr(sorted(dropped, key=str)),
        )
        kept = [head for head in range(self.heads) if head not in dropped]
        share = self.heads // self.groups
        members = [sum(head // share == group for head in kept) for group in range(self.groups)]
        groups = [group for group, count in enumerate(members) if count]
        expect(bool(kept), "MultiHead's heads to drop", "at least one head left", "none left")
        if len({members[group] for group in groups}) != 1:
            raise FovealError(
                f"MultiHead's heads to drop: expected whole groups of {share} or the same number from every group, "
                f"got groups with {members} heads left; choose heads so that these agree"
            )
        rows = self._rows(kept)
        pairs = self._rows([*groups, *(self.groups + group for group in groups)])
        if self.qkv is not None:
            self.qkv = _smaller(self.qkv, torch.cat([rows, pairs + self.heads * self.head_width]), 0)
        else:
            self.q, self.kv = _smaller(self.q, rows, 0), _smaller(self.kv, pairs, 0)
        self.out = _smaller(self.out, rows, 1)
        self.heads, self.groups = len(kept), len(groups)
        # A position that learns something for each head (a table of biases) loses the same heads.
        if self.position is not None:
            self.position.drop_heads(sorted(dropped))

    def extra_repr(self) -> str:
        mask = "" if self.mask is None else f", mask={self.mask!r}"
        sizes = f"{self.width}, heads={self.heads}, groups={self.groups}, head_width={self.head_width}"
        return f"{sizes}, dropout={self.dropout}{mask}"

    def _from_one(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and v of the same tokens."""
        heads, groups = self.heads, self.groups
        if self.qkv is not None:
            q, k, v = torch.split(self._split(self.qkv(tokens)), [heads, groups, groups], 1)
            return q, k, v
        if self.key_width != self.width:
            raise FovealError(
                f"MultiHead's memory: expected one of width {self.key_width}, got none; its own tokens are "
                f"{self.width} wide"
            )
        k, v = self._split(self.kv(tokens)).chunk(2, 1)
        return self._split(self.q(tokens)), k, v

    def _queries(self, tokens: Tensor, start: int) -> Tensor:
        """q (B, H, N, D) of tokens that read another source."""
        q = self._split(
            self.q(tokens) if self.qkv is None else some_outputs(self.qkv, tokens, 0, self.heads * self.head_width)
        )
        return q if self.position is None else self.position.rotate(q, q, start, start)[0]

    def _split(self, tokens: Tensor) -> Tensor:
        """(B, N, heads·D) → (B, heads, N, D)."""
        batch, length, width = tokens.shape
        # −1 is ambiguous of no tokens
        return tokens.view(batch, length, width // self.head_width, self.head_width).transpose(1, 2)

    def _mask(self, mask: Mask | Tensor | None, start: int, q: Tensor, k: Tensor) -> Mask | Tensor | None:
        """Both the layer's own mask and the caller's, for queries that begin at `start`."""
        mask = mask.tensor if isinstance(mask, Given) else mask
        own = self.mask if self.mask is None else self.mask.starting_at(start)
        if mask is None or own is None:
            return mask.starting_at(start) if isinstance(mask, Mask) else own if mask is None else mask
        if isinstance(mask, Mask):
            return own & mask.starting_at(start)
        if not isinstance(mask, Tensor):
            raise FovealError(f"mask: expected a mask or a boolean tensor, got {short_repr(mask)}")
        return Given(mask).tensor & own.dense(q.shape[2], k.shape[2], batch=q.shape[0], device=q.device)

    def _parts(self, name: str) -> list[Tensor]:
        """W (or b) of q, of k and of v: views into the joint matrices."""
        queries, pairs = self.heads * self.head_width, self.groups * self.head_width
        if self.qkv is not None:
            whole = getattr(self.qkv, name)
            return [] if whole is None else list(whole.split([queries, pairs, pairs]))
        both = getattr(self.kv, name)
        return [] if both is None else [getattr(self.q, name), *both.split(pairs)]

    def _rows(self, heads: list[int]) -> Tensor:
        """The rows of a projection that belong to these heads."""
        width = self.head_width
        return torch.tensor(
            [head * width + row for head in heads for row in range(width)], device=self.out.weight.device
        )


def check_position(layer: str, position: Position | None) -> None:
    """Raise a FovealError if a layer would never use this position."""
    if position is None or type(position) is Position:
        return
    if not isinstance(position, Position):
        raise FovealError(
            f"{layer}'s position: expected one of foveal.position, such as Rotary(), got {short_repr(position)}"
        )
    kind = type(position)
    if kind.rotate is Position.rotate and kind.term is Position.term:
        raise FovealError(
            f"{layer}'s position: expected one that rotates or adds a term, got {kind.__name__}; "
            "it is added to the input: call it on the tokens before the first block"
        )


def _check_growth(*masks: Mask | Tensor | None) -> None:
    """Raise a FovealError unless decoding step by step sees what one pass sees."""
    for mask in masks:
        if isinstance(mask, Mask) and not mask.grows:
            raise FovealError(
                f"MultiHead's cache: expected a mask that keeps the same pairs when keys are added, got {mask!r}; "
                "decode without a cache"
            )


def _smaller(linear: nn.Linear, kept: Tensor, axis: int) -> nn.Linear:
    """A projection with some of its outputs (axis 0) or inputs (axis 1) only."""
    weight, bias = linear.weight.detach().index_select(axis, kept), linear.bias
    small = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, device=weight.device, dtype=weight.dtype)
    small.weight = nn.Parameter(weight, requires_grad=linear.weight.requires_grad)
    if bias is not None:
        shorter = bias.detach().index_select(0, kept) if axis == 0 else bias.detach().clone()
        small.bias = nn.Parameter(shorter, requires_grad=bias.requires_grad)
    return small
