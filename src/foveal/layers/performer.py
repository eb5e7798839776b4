"""Performer: multi-head attention whose softmax is replaced by random features, so that its cost is linear in the
length.

    y = Concat(head_1 … head_H) W_O;   head = φ(Q)(φ(K)ᵀV) / (φ(Q)(φ(K)ᵀ1));   φ(x)_f = exp(ω_f·x′ − ‖x′‖²/2)/√F
    x′ = x/D^¼

Symbols: ω_f the F features, orthogonal in blocks, drawn from the seed and shared by all heads (FAVOR+); D = C/H.
Paper: Krzysztof Choromanski, Valerii Likhosherstov, David Dohan, Xingyou Song, Andreea Gane, Tamas Sarlos, Peter
    Hawkins, Jared Davis, Afroz Mohiuddin, Lukasz Kaiser, David Belanger, Lucy Colwell, Adrian Weller (2021).
    Rethinking attention with performers. ICLR. arXiv:2009.14794.
Departs from the paper: no constant is added to the features. The features are drawn anew only when `redraw` is called.
Cost: O((N + M)·(C² + F·C)) time, O((N + M)·C + F·C) memory, as features are made for some rows at a time and thrown
    away; a gradient keeps F·C sums for each such part; compiled O((N + M)·(C + H·F)) memory, and causal (N/128)²·F·C
    more time. Faster than full attention once N is well above F.
Example: Performer(14, heads=7, features=8)(x)
"""

from torch import Tensor, nn

from foveal.core.algebra import And, Given
from foveal.core.linear import linear, orthogonal
from foveal.core.mask import Mask
from foveal.errors import FovealError, expect, is_integer, short_repr
from foveal.layers.attention import check_mask, check_sizes, check_tokens, some_outputs


class Performer(nn.Module):
    """Self-attention, or cross-attention if there is a memory.

    Its weights are named as MultiHead's, so one can carry the other's.
    """

    projection: Tensor

    def __init__(self, width: int, heads: int, features: int = 256, *, seed: int = 0, mask: Mask | None = None) -> None:
        """mask: none, causal, padding or causal & padding; there are no pairs that another could drop."""
        super().__init__()
        check_sizes(self, width=width, heads=heads, features=features)
        expect(width % heads == 0, "Performer's heads", f"a divisor of the width {width}", heads)
        expect(is_integer(seed), "Performer's seed", "an integer", short_repr(seed))
        check_mask(self, mask)
        self.width, self.heads, self.mask = width, heads, mask
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.register_buffer("projection", orthogonal(features, width // heads, seed))

    def redraw(self, seed: int) -> None:
        """Other features, of the same number: an average over several draws is nearer to the softmax."""
        expect(is_integer(seed), "Performer's seed", "an integer", short_repr(seed))
        features, width = self.projection.shape
        self.projection.copy_(orthogonal(features, width, seed))

    def forward(self, query: Tensor, memory: Tensor | None = None, *, mask: Mask | Tensor | None = None) -> Tensor:
        """Tokens (B, N, C), and in cross-attention a memory (B, M, C) → (B, N, C)."""
        check_tokens(self, "query", query, self.width, self.qkv.weight)
        if memory is None:
            q, k, v = self.qkv(query).chunk(3, -1)
        else:
            check_tokens(self, "memory", memory, self.width, self.qkv.weight)
            q = some_outputs(self.qkv, query, 0, self.width)
            k, v = some_outputs(self.qkv, memory, self.width, None).chunk(2, -1)
        q, k, v = (self._split(tokens) for tokens in (q, k, v))  # (B, H, N, D)
        y = linear(q, k, v, self.projection, mask=self._both(mask))
        projected: Tensor = self.out(y.transpose(1, 2).flatten(2))  # (B, N, C)
        return projected

    def _split(self, tokens: Tensor) -> Tensor:
        """(B, N, C) → (B, H, N, D); −1 would be ambiguous of no tokens."""
        batch, length, width = tokens.shape
        return tokens.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def _both(self, mask: Mask | Tensor | None) -> Mask | Tensor | None:
        """The layer's own mask and the caller's."""
        if self.mask is None or mask is None:
            return self.mask if mask is None else mask
        if not isinstance(mask, (Mask, Tensor)):
            raise FovealError(f"Performer's mask: expected a mask or a boolean tensor, got {short_repr(mask)}")
        return And(self.mask, Given(mask) if isinstance(mask, Tensor) else mask)
