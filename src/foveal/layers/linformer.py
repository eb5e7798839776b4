"""Linformer: keys and values are projected along the length, so that queries meet a fixed number of them.

    head = softmax(Q (E K)ᵀ/√D) (F V);   y = Concat(head_1 … head_H) W_O

Symbols: E and F (projected, length), learned, shared by all heads; a shorter input of M tokens uses their first M
    columns.
Paper: Sinong Wang, Belinda Z. Li, Madian Khabsa, Han Fang, Hao Ma (2020). Linformer: self-attention with linear
    complexity. arXiv:2006.04768.
Departs from the paper: E and F begin with variance 1/length, so that a projected key is as large as a key; the paper's
    proof takes 1/projected. They are shared by the heads of a layer (the paper's headwise sharing), not between
    layers.
Cost: O(N·C² + N·projected·C) time, O(N·projected) memory at most; 2·projected·length parameters more than multi-head
    attention.
Example: Linformer(14, heads=7, length=13, projected=5)(x)
"""

import torch
from torch import Tensor, nn

from foveal.core.attend import attend
from foveal.core.linear import order_and_keys
from foveal.core.mask import Mask
from foveal.errors import FovealError, expect
from foveal.layers.attention import check_dropout, check_sizes, check_tokens


class Linformer(nn.Module):
    """Self-attention for inputs of at most `length` tokens. It mixes all positions, so it cannot be causal."""

    def __init__(self, width: int, heads: int, length: int, projected: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        check_sizes(self, width=width, heads=heads, length=length, projected=projected)
        expect(width % heads == 0, "Linformer's heads", f"a divisor of the width {width}", heads)
        check_dropout(self, dropout)
        self.width, self.heads, self.length, self.dropout = width, heads, length, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.e = nn.Parameter(torch.randn(projected, length) * length**-0.5)
        self.f = nn.Parameter(torch.randn(projected, length) * length**-0.5)

    def forward(self, x: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
        """Tokens (B, N, C), N ≤ length → (B, N, C). mask: padding only,
        as every projected key is a mixture of all tokens.
        """
        check_tokens(self, "x", x, self.width, self.qkv.weight)
        batch, tokens, _ = x.shape
        if tokens > self.length:
            raise FovealError(
                f"Linformer's x: expected at most {self.length} tokens, got {tokens}; build it with a larger length"
            )
        ordered, kept = order_and_keys(mask, batch, tokens, tokens, x.device)
        if ordered:
            raise FovealError(
                "Linformer's mask: expected none or padding, got causal; a projected key holds later tokens too"
            )
        # of shape (B, H, N, D)
        q, k, v = (
            self.qkv(x).view(batch, tokens, 3, self.heads, self.width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        )
        if kept is not None:
            hidden = ~kept.transpose(-1, -2)  # (B, 1, N, 1)
            k, v = k.masked_fill(hidden, 0), v.masked_fill(hidden, 0)
        k, v = self.e[:, :tokens] @ k, self.f[:, :tokens] @ v  # (B, H, projected, D)
        y = attend(q, k, v, dropout=self.dropout if self.training else 0.0)
        projected: Tensor = self.out(y.transpose(1, 2).flatten(2))  # (B, N, C)
        return projected
