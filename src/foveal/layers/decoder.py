"""Decoder block: tokens look at those before them, then at a memory, then each is transformed by itself; a residual
connection around each.

    post-LN:  x̂ = LN(x + SelfAttention(x));   z = LN(x̂ + CrossAttention(x̂, memory));   y = LN(z + FFN(z))
    pre-LN:   x̂ = x + SelfAttention(LN(x));   z = x̂ + CrossAttention(LN(x̂), memory);   y = z + FFN(LN(z))

Paper: Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz Kaiser, Illia
    Polosukhin (2017). Attention is all you need. NeurIPS. arXiv:1706.03762.
Departs from the paper: nothing with norm=PostNorm; the block is causal if its self-attention has mask=causal, or is
    given it in the call.
Cost: that of its three layers; with a cache and a remembered memory, a step projects one token only.
Example: Decoder(MultiHead(14, 2, mask=causal), MultiHead(14, 2, key_width=10), FeedForward(14, 28))(x, wide)
"""

from torch import Tensor, nn

from foveal.core.mask import Mask
from foveal.core.pattern.causal import causal  # noqa: F401  for the example above
from foveal.errors import expect
from foveal.layers.cache import Cache, Memory
from foveal.layers.encoder import check_norm, shared_width
from foveal.layers.feed_forward import FeedForward  # noqa: F401  for the example above
from foveal.layers.multihead import MultiHead
from foveal.layers.residual import PostNorm, Residual


class Decoder(nn.Module):
    """One block out of parts."""

    def __init__(
        self,
        self_attention: MultiHead,
        cross_attention: MultiHead,
        feed_forward: nn.Module,
        norm: type[Residual] = PostNorm,
        dropout: float = 0.0,
    ) -> None:
        """norm: how each layer is wrapped. dropout: on each layer's output."""
        super().__init__()
        check_norm(self, norm)
        self.width = shared_width(None, self_attention, cross_attention, feed_forward)
        self.self_attention = norm(self_attention, self.width, dropout)
        self.cross_attention = norm(cross_attention, self.width, dropout)
        self.feed_forward = norm(feed_forward, self.width, dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | Memory,
        *,
        mask: Mask | Tensor | None = None,
        memory_mask: Mask | Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """x (B, N, C) and a memory (B, M, C′), projected or not → (B, N, C). mask: among x.

        memory_mask: which of the memory x may see.

        cache: the keys and values of the tokens before x, which gets those of x added.
        """
        start = cache.length if isinstance(cache, Cache) else 0  # anything else is refused by the layer below
        x = self.self_attention(x, mask=mask, cache=cache)
        x = self.cross_attention(x, memory, mask=memory_mask, start=start)
        y: Tensor = self.feed_forward(x)
        return y

    def step(self, x: Tensor, memory: Memory, *, memory_mask: Mask | Tensor | None = None, cache: Cache) -> Tensor:
        """One token (R, 1, C) of each of R = S·beams sequences, and the remembered memories of S sources → (R, 1, C).

        The beams of a source stand next to each other, and look at its memory as queries of one sample: it is neither
        copied nor projected for each of them. memory_mask is that of the S sources.
        """
        rows, sources = x.shape[0], memory.k.shape[0]
        expect(sources > 0 and rows % sources == 0, "Decoder's rows", f"a multiple of the {sources} sources", rows)
        x = self.self_attention(x, cache=cache)
        x = self.cross_attention(x.reshape(sources, rows // sources, self.width), memory, mask=memory_mask)
        y: Tensor = self.feed_forward(x.reshape(rows, 1, self.width))
        return y

    def remember(self, memory: Tensor) -> Memory:
        """The keys and values of a memory, projected once for all steps."""
        layer = self.cross_attention.layer
        assert isinstance(layer, MultiHead)
        return layer.remember(memory)

    def new_cache(self, batch: int, capacity: int) -> Cache:
        """An empty cache that fits the self-attention."""
        layer = self.self_attention.layer
        assert isinstance(layer, MultiHead)
        return layer.new_cache(batch, capacity)
