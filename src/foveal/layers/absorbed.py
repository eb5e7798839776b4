"""Absorbed cross-attention: multi-head attention in which a few queries carry the projections, so that the memory is
read as it is.

    y = Σ_h softmax(x A_h mᵀ/√D) m B_h + b;   A_h = W_h^Q W_h^Kᵀ,   B_h = W_h^V W_h^O

Symbols: m the memory (B, M, C′), which is key and value of all heads; W_h the part of head h in multi-head attention's
    own weights; b the biases of values and output, joined. A bias of keys would add one number to all scores of a
    query, which the softmax takes out again: it is kept, and not used.
Paper: Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz Kaiser, Illia
    Polosukhin (2017). Attention is all you need. NeurIPS. arXiv:1706.03762.
Departs from the paper: the same function in another order of products, the order in which DeepSeek-V2
    (arXiv:2405.04434) reads its compressed cache; here nothing is compressed. Dropout on the weights leaves the bias
    of the values alone, where multi-head attention drops a part of it too.
Cost: O(N·M·H·C′ + N·H·C·C′) time, where multi-head attention takes O(N·M·C + M·C·C′): less if there are fewer rows H·N
    than C. And O(C²·C′) for A and B, which an exported file holds as constants. Weights as there.
Example: Absorbed(14, 7, key_width=10)(x, wide)
"""

from torch import Tensor, nn
from torch.nn import functional

from foveal.core.algebra import Given
from foveal.core.attend import attend
from foveal.core.mask import Mask
from foveal.errors import expect
from foveal.layers.attention import check_dropout, check_sizes, check_tokens, matrix


class Absorbed(nn.Module):
    """Cross-attention with the weights of MultiHead(width, heads, key_width=key_width): each can load the other's."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key_width: int,
        head_width: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        """head_width: D, C/H unless given."""
        super().__init__()
        check_sizes(
            self,
            width=width,
            heads=heads,
            key_width=key_width,
            **({} if head_width is None else {"head_width": head_width}),
        )
        expect(
            head_width is not None or width % heads == 0, "Absorbed's heads", f"a divisor of the width {width}", heads
        )
        check_dropout(self, dropout)
        self.width, self.heads, self.key_width, self.dropout = width, heads, key_width, dropout
        self.head_width = head_width or width // heads
        self.inner = heads * self.head_width
        self.q = nn.Linear(width, self.inner, bias)
        self.kv = nn.Linear(key_width, 2 * self.inner, bias)
        self.out = nn.Linear(self.inner, width, bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every W uniform after Glorot and Bengio, each of q, k and v by itself; biases 0: as MultiHead's."""
        for weight in (self.q.weight, *self.kv.weight.chunk(2), self.out.weight):
            nn.init.xavier_uniform_(weight)
        for part in (self.q, self.kv, self.out):
            if part.bias is not None:
                nn.init.zeros_(part.bias)

    def forward(
        self, query: Tensor, memory: Tensor, *, mask: Mask | Tensor | None = None, kernel: str = "auto"
    ) -> Tensor:
        """Tokens (B, N, C) and a memory (B, M, key_width) → (B, N, C)."""
        check_tokens(self, "query", query, self.width, self.out.weight)
        check_tokens(self, "memory", memory, self.key_width, self.out.weight)
        batch, length, _ = query.shape
        # (B, H, N, C′)
        q = functional.linear(query, *self._asked()).view(batch, length, self.heads, self.key_width).transpose(1, 2)
        keys = memory[:, None].to(q.dtype)  # (B, 1, M, C′); another dtype under autocast only
        y = attend(
            q,
            keys,
            keys,
            mask=mask,
            scale=self.head_width**-0.5,
            dropout=self.dropout if self.training else 0.0,
            kernel=kernel,
        )
        output = functional.linear(y.transpose(1, 2).flatten(2), self._output())  # (B, N, H·C′) → (B, N, C)
        return output if self.kv.bias is None else output + self._offset(mask, query, memory).to(output.dtype)

    def _asked(self) -> tuple[Tensor, Tensor | None]:
        """A of all heads (H·C′, C), and what it makes of the bias of q (H·C′,)."""
        keys = self._by_head(matrix(self, self.kv)[: self.inner]).transpose(1, 2)  # (H, C′, D)
        weight = (keys @ self._by_head(matrix(self, self.q))).flatten(0, 1)
        return weight, None if self.q.bias is None else (keys @ self.q.bias.view(self.heads, -1, 1)).flatten()

    def _output(self) -> Tensor:
        """B of all heads (C, H·C′)."""
        return (self._out() @ self._by_head(matrix(self, self.kv)[self.inner :])).transpose(0, 1).flatten(1)

    def _offset(self, mask: Mask | Tensor | None, query: Tensor, memory: Tensor) -> Tensor:
        """b, (C,); (B or 1, N, C) with a mask: a head that may look at nothing says nothing,
        its bias of values neither.
        """
        values = self.kv.bias[self.inner :]
        if mask is None:
            return matrix(self, self.out) @ values + self.out.bias
        known = Given(mask) if isinstance(mask, Tensor) else mask
        # of shape (N,) or (B, H, N)
        kept = known.dense(query.shape[1], memory.shape[1], batch=query.shape[0], device=query.device).any(-1)
        # of shape (B or 1, N, H)
        kept = (kept if kept.dim() == 3 else kept[None, None]).expand(-1, self.heads, -1).transpose(1, 2)
        values_out = (self._out() @ values.view(self.heads, -1, 1)).squeeze(2)  # (H, C)
        return kept.to(values_out.dtype) @ values_out + self.out.bias

    def _out(self) -> Tensor:
        """W_O by head, (H, C, D)."""
        return matrix(self, self.out).view(self.width, self.heads, self.head_width).transpose(0, 1)

    def _by_head(self, weight: Tensor) -> Tensor:
        """(H·D, …) → (H, D, …)."""
        return weight.view(self.heads, self.head_width, -1)

    def extra_repr(self) -> str:
        return f"{self.width}, heads={self.heads}, key_width={self.key_width}, dropout={self.dropout}"
