"""No position: self-attention alone does not know the order of its tokens, f(P x) = P f(x) for every permutation P.

    embed(x) = x;   rotate(q, k) = (q, k);   term = nothing

Symbols: every other position is this one with a part replaced. `embed` is called on tokens (B, N, C) before the first
    block; `rotate` and `term` by a multi-head layer on its heads (B, H, N, D).
Paper: Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz Kaiser, Illia
    Polosukhin (2017). Attention is all you need. NeurIPS. arXiv:1706.03762.
Departs from the paper: nothing.
Cost: none.
Example: Position()(x)
"""

from torch import Tensor, nn

from foveal.core.term import Term
from foveal.errors import FovealError, expect, is_integer, short_repr


class Position(nn.Module):
    """The base of all positions, and the one that says nothing."""

    def embed(self, x: Tensor, start: int = 0) -> Tensor:
        """Tokens (B, N, C) with their positions start, start + 1, … added."""
        return x

    def rotate(self, q: Tensor, k: Tensor, query_start: int = 0, key_start: int = 0) -> tuple[Tensor, Tensor]:
        """Heads (B, H, N, D) and (B, G, M, D) turned by their positions."""
        return q, k

    def term(self, query_start: int = 0) -> Term | None:
        """What is added to the scores, for queries that begin at position query_start."""
        return None

    def drop_heads(self, indices: list[int]) -> None:
        """Forget what belongs to these heads, as the layer around does; most positions treat all heads alike."""

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return self.embed(x, start)


def check_places(position: Position, x: Tensor, shape: str, width: int, start: int, do: str) -> None:
    """Raise a FovealError that names the position unless x is floating, of this shape (its axes in words) and width."""
    name = type(position).__name__
    if not isinstance(x, Tensor) or not x.is_floating_point():
        got = f"{x.dtype}" if isinstance(x, Tensor) else short_repr(x)
        raise FovealError(f"{name}'s tokens: expected a floating tensor, {shape}, got {got}")
    fits = x.dim() == shape.count(",") + 1 and x.shape[-1] == width
    expect(fits, f"{name}'s tokens", shape, tuple(x.shape), do)
    if not is_integer(start):
        raise FovealError(f"{name}'s start: expected an integer, got {short_repr(start)}")
