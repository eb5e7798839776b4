"""Attention, the general form: any score of a query and a key, a softmax over the keys, a weighted mean of the memory.

    e_ij = f(q_i, k_j);   α_ij = softmax_j e_ij;   y_i = Σ_j α_ij k_j

Symbols: f the score, any of `foveal.score`, a function or a module that is called as score(q, k) with q (B, 1, N, C)
    and k (B, 1, M, E).
Paper: Dzmitry Bahdanau, Kyunghyun Cho, Yoshua Bengio (2015). Neural machine translation by jointly learning to align
    and translate. ICLR. arXiv:1409.0473.
Departs from the paper: f is open; the paper's own is `Additive`. A row that may look at nothing yields 0.
Cost: that of the score, and O(N·M·E) time, O(N·M) memory.
Example: Attention(dot)(x, memory)
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from foveal.core.algebra import Given
from foveal.core.attend import weigh
from foveal.core.mask import Mask
from foveal.core.score.dot import dot
from foveal.core.trace import is_tracing
from foveal.errors import FovealError, expect, expect_integer, is_number, short_repr

Score = Callable[[Tensor, Tensor], Tensor]


class Attention(nn.Module):
    """Tokens look at a memory, or at each other if there is none, through one head without projections."""

    def __init__(self, score: Score = dot, *, dropout: float = 0.0) -> None:
        super().__init__()
        expect(
            callable(score),
            "Attention's score",
            "a function or a module, (q, k) → e",
            short_repr(score),
            "pass foveal.score.dot, not dot(q, k)",
        )
        check_dropout(self, dropout)
        self.score, self.dropout = score, dropout

    def forward(self, query: Tensor, memory: Tensor | None = None, *, mask: Mask | Tensor | None = None) -> Tensor:
        """Tokens (B, N, C) and a memory (B, M, E) → (B, N, E)."""
        memory = query if memory is None else memory
        check_tokens(self, "query", query)
        check_tokens(self, "memory", memory)
        scores = self.score(query[:, None], memory[:, None])
        want = (query.shape[0], 1, query.shape[1], memory.shape[1])
        if not isinstance(scores, Tensor):
            raise FovealError(f"Attention's score: expected e of shape {want}, got {short_repr(scores)}")
        expect(tuple(scores.shape) == want, "Attention's score", f"e of shape {want}", tuple(scores.shape))
        return look(scores, memory, mask, self.dropout if self.training else 0.0)


def look(scores: Tensor, memory: Tensor, mask: Mask | Tensor | None, dropout: float) -> Tensor:
    """Scores of one head (B, 1, N, M), a memory (B, M, E) → its weighted mean (B, N,
    E) over the keys that the mask keeps.
    """
    return weigh(hidden(scores, mask), memory[:, None], dropout=dropout)[:, 0]


def hidden(scores: Tensor, mask: Mask | Tensor | None) -> Tensor:
    """The scores with −inf where the mask drops a pair."""
    if mask is None:
        return scores
    mask = Given(mask) if isinstance(mask, Tensor) else mask
    expect(isinstance(mask, Mask), "mask", "a mask or a boolean tensor", type(mask).__name__)
    batch, _, queries, keys = scores.shape
    kept = mask.dense(queries, keys, batch=batch, device=scores.device)
    one = kept.dim() == 2 or kept.shape[1] == 1
    expect(one, "mask", f"({batch}, 1, {queries}, {keys})", tuple(kept.shape), "these layers have one head")
    return scores.masked_fill(~kept, -torch.inf)


def check_tokens(
    layer: nn.Module, name: str, tokens: Tensor, width: int | None = None, weight: Tensor | None = None
) -> None:
    """Raise a FovealError that names the layer unless tokens are (B, N, width), and fit the weight they meet first."""
    if not isinstance(tokens, Tensor):
        raise FovealError(
            f"{type(layer).__name__}'s {name}: expected a tensor (B, N, {width or 'C'}), got {short_repr(tokens)}"
        )
    if tokens.dim() != 3 or tokens.shape[2] != (tokens.shape[2] if width is None else width):
        raise FovealError(
            f"{type(layer).__name__}'s {name}: expected (B, N, {width or 'C'}), got {tuple(tokens.shape)}"
        )
    check_dtype(layer, name, tokens, weight)


def check_last(layer: nn.Module, tokens: Tensor, width: int, weight: Tensor | None = None) -> None:
    """The same for a layer that takes any shape (…, width)."""
    if not isinstance(tokens, Tensor):
        raise FovealError(f"{type(layer).__name__}'s input: expected a tensor (…, {width}), got {short_repr(tokens)}")
    if tokens.dim() == 0 or tokens.shape[-1] != width:
        raise FovealError(
            f"{type(layer).__name__}'s input: expected a last axis of {width}, got shape {tuple(tokens.shape)}"
        )
    check_dtype(layer, "input", tokens, weight)


def check_grid(layer: nn.Module, grid: Tensor, width: int) -> None:
    """The same for a layer that takes a grid (B, h, w, width)."""
    if not isinstance(grid, Tensor) or grid.dim() != 4 or grid.shape[3] != width:
        got = tuple(grid.shape) if isinstance(grid, Tensor) else short_repr(grid)
        raise FovealError(f"{type(layer).__name__}'s grid: expected (B, h, w, {width}), got {got}")


def some_outputs(linear: nn.Linear, tokens: Tensor, first: int, last: int | None) -> Tensor:
    """Some outputs of a projection: for a layer made for one source that is given two."""
    weight, bias = linear.weight, linear.bias
    if not isinstance(
        weight, Tensor
    ):  # quantised: its matrix is packed as a whole, so all is computed and some is taken
        return linear(tokens)[..., first:last]  # type: ignore[unreachable]
    return functional.linear(tokens, weight[first:last], None if bias is None else bias[first:last])


def matrix(layer: nn.Module, linear: nn.Linear) -> Tensor:
    """W of a projection, for a layer that multiplies by it in its own way."""
    if not isinstance(linear.weight, Tensor):
        what = f"{type(layer).__name__}'s weights"  # type: ignore[unreachable]
        raise FovealError(
            f"{what}: expected floating point, got a quantised projection; leave this layer out, it multiplies by "
            "them itself"
        )
    return linear.weight


def filled_up(grid: Tensor, size: int) -> Tensor:
    """A grid (B, h, w, C) with zeros at its end, so that `size` divides its sides; at least one square of that size."""
    h, w = grid.shape[1], grid.shape[2]
    right, down = -w % size if w else size, -h % size if h else size
    # A pad of nothing copies the grid; in a graph it goes by itself, and a look at the sizes would tie them down.
    fits = not torch.compiler.is_compiling() and not is_tracing() and right == down == 0
    return grid if fits else functional.pad(grid, (0, 0, 0, right, 0, down))


def cut_off(grid: Tensor, size: int) -> Tensor:
    """A grid (B, h, w, C) without its last rows and columns, so that `size` divides its sides."""
    h, w = grid.shape[1], grid.shape[2]
    return grid[:, : h - h % size, : w - w % size]


def check_dtype(layer: nn.Module, name: str, tokens: Tensor, weight: Tensor | None = None) -> None:
    """Raise a FovealError unless tokens are floating, and of the weight's dtype where autocast does not see to it."""
    if weight is None:
        if not tokens.is_floating_point():
            raise FovealError(f"{type(layer).__name__}'s {name}: expected a floating dtype, got {tokens.dtype}")
    elif isinstance(weight, Tensor) and tokens.dtype != weight.dtype:  # a quantised layer has a method there
        casts = tokens.is_floating_point() and torch.float64 not in (tokens.dtype, weight.dtype)
        if not casts or not torch.is_autocast_enabled(tokens.device.type):
            what = f"{type(layer).__name__}'s {name}"
            raise FovealError(
                f"{what}: expected {weight.dtype}, as its weights, got {tokens.dtype}; convert one of them with .to()"
            )


def check_sizes(layer: nn.Module, **sizes: int) -> None:
    """Raise a FovealError that names the layer and the argument unless every size is an integer from 1."""
    for name, size in sizes.items():
        expect_integer(size, f"{type(layer).__name__}'s {name}", expected="an integer, at least 1")


def check_dropout(layer: nn.Module, dropout: float, name: str = "dropout") -> None:
    fits = is_number(dropout) and 0 <= dropout < 1
    expect(fits, f"{type(layer).__name__}'s {name}", "at least 0 and below 1", short_repr(dropout))


def check_mask(layer: nn.Module, mask: Mask | None) -> None:
    """Raise a FovealError unless this is a mask that a layer can be built with."""
    fits = mask is None or isinstance(mask, Mask)
    expect(
        fits,
        f"{type(layer).__name__}'s mask",
        "a mask, such as foveal.mask.causal",
        short_repr(mask),
        "a tensor goes into the call",
    )


def check_activation(layer: nn.Module, activation: nn.Module | None) -> None:
    fits = activation is None or (callable(activation) and not isinstance(activation, type))
    expect(fits, f"{type(layer).__name__}'s activation", "a layer, such as torch.nn.ReLU()", short_repr(activation))
