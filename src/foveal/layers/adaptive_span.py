"""Adaptive span: each head learns how far it looks, by a soft mask over distance.

    m_z(d) = clamp((R + z − d)/R, 0, 1);   α_ij = m_z(|i − j|) e^{s_ij} / Σ_k m_z(|i − k|) e^{s_ik}
    loss + λ·mean_h z_h

Symbols: s_ij the scores of multi-head attention; z_h = max_span·σ(p_h) the span of head h, p learned; R the ramp. m
    enters as log m added to the scores.
Paper: Sainbayar Sukhbaatar, Edouard Grave, Piotr Bojanowski, Armand Joulin (2019). Adaptive attention span in
    transformers. ACL. arXiv:1905.07799.
Departs from the paper: z is kept in its range by a sigmoid, where the paper clamps it after each step; it begins at
    max_span/2. Distance counts both ways and a token sees itself; with mask=causal only the past is seen, as in the
    paper.
Cost: O(N·C² + N·(max_span + R)·C) time, in blocks; less with mask=layer.trimmed() once the spans are short.
Example: AdaptiveSpan(14, heads=7, max_span=6, ramp=3)(x)
"""

import math

import torch
from torch import Tensor, nn

from foveal.core.mask import Mask
from foveal.core.pattern.local import local
from foveal.core.term import Sum, Term
from foveal.errors import expect
from foveal.layers.attention import check_sizes
from foveal.layers.multihead import MultiHead, check_position
from foveal.position.biased import without_heads
from foveal.position.position import Position

__all__ = ["AdaptiveSpan"]


class AdaptiveSpan(MultiHead):
    """Multi-head attention with a span for each head; everything else, the cache too, is MultiHead's."""

    position: "Span"

    def __init__(
        self,
        width: int,
        heads: int,
        max_span: int,
        ramp: int,
        *,
        head_width: int | None = None,
        position: Position | None = None,
        mask: Mask | None = None,
        dropout: float = 0.0,
    ) -> None:
        """max_span: the upper limit of a span. ramp: R, over how many further tokens the soft mask falls to 0.
        head_width: C/H unless given.
        """
        check_sizes(self, width=width, heads=heads, max_span=max_span, ramp=ramp)
        check_position("AdaptiveSpan", position)
        reach = local(max_span + ramp - 1)  # beyond it m is 0, whatever is learned
        span = Span(heads, max_span, ramp, position)
        mask = reach if mask is None else reach & mask
        super().__init__(width, heads, head_width=head_width, position=span, mask=mask, dropout=dropout)

    def spans(self) -> Tensor:
        """z of each head, (H,), in tokens."""
        return self.position.spans()

    def penalty(self) -> Tensor:
        """mean_h z_h: add it to the loss, times λ."""
        return self.spans().mean()

    def trimmed(self) -> Mask:
        """What the widest head sees now.

        As `mask=` it changes no result, and what lies outside of it is not computed.
        """
        widest = float(self.spans().detach().max())
        return local(math.ceil(widest + self.position.ramp) - 1)


class Span(Position):
    """The soft mask over distance as a position: it may stand around another, whose rotation and term it keeps."""

    def __init__(self, heads: int, max_span: int, ramp: int, inner: Position | None = None) -> None:
        super().__init__()
        check_sizes(self, heads=heads, max_span=max_span, ramp=ramp)
        self.max_span, self.ramp = max_span, ramp
        self.inner = Position() if inner is None else inner
        self.p = nn.Parameter(torch.zeros(heads))

    def spans(self) -> Tensor:
        return self.max_span * torch.sigmoid(self.p)

    def embed(self, x: Tensor, start: int = 0) -> Tensor:
        return self.inner.embed(x, start)

    def rotate(self, q: Tensor, k: Tensor, query_start: int = 0, key_start: int = 0) -> tuple[Tensor, Tensor]:
        return self.inner.rotate(q, k, query_start, key_start)

    def term(self, query_start: int = 0) -> Term:
        own, other = SpanTerm(self.spans(), self.ramp, query_start), self.inner.term(query_start)
        return own if other is None else Sum(own, other)

    def drop_heads(self, indices: list[int]) -> None:
        """The heads that MultiHead.drop_heads cuts out lose their spans."""
        self.p, _ = without_heads(self.p, 0, indices)
        self.inner.drop_heads(indices)


class SpanTerm(Term):
    """log m_z(|i − j|), for queries the first of which stands at query_start; −inf where m is 0."""

    def __init__(self, spans: Tensor, ramp: int, query_start: int = 0) -> None:
        self.tensors = (spans,)
        self.ramp, self.start = ramp, query_start

    def scores(self, q: Tensor, rows: Tensor, columns: Tensor, *tensors: Tensor) -> Tensor:
        (spans,) = tensors
        distance = (rows[:, None] + self.start - columns).abs()  # (n, m)
        soft = (
            self.ramp + spans.to(q.dtype)[:, None, None] - distance
        ) / self.ramp  # (H, n, m), above 0 where something is seen
        # log only where it is finite, so that the gradient is a number everywhere
        seen = soft > 0
        return torch.where(seen, soft.where(seen, 1).clamp(max=1).log(), -torch.inf)

    def check(self, q: Tensor, keys: int) -> None:
        expect(
            q.shape[1] == len(self.tensors[0]),
            "AdaptiveSpan's spans",
            f"one for each of {q.shape[1]} heads",
            len(self.tensors[0]),
        )
