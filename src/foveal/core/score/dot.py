"""Dot-product score: how far a query and a key point the same way.

    e_ij = q_i·k_j · scale

Symbols: scale = 1/√D unless given, so that e has variance 1 when q and k have.
Paper: Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz Kaiser, Illia
    Polosukhin (2017). Attention is all you need. NeurIPS. arXiv:1706.03762.
Departs from the paper: nothing.
Cost: O(N·M·D) time, O(N·M) memory. `attend` computes the same without storing it.
Example: dot(q, k)
"""

import math

from torch import Tensor

from foveal.core.blockwise import by_group
from foveal.core.score import check_heads


def dot(q: Tensor, k: Tensor, scale: float | None = None) -> Tensor:
    """(B, H, N, D), (B, G, M, D) → (B, H, N, M)."""
    check_heads(q, k)
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    scores = by_group(q * scale, k.shape[1]) @ k.transpose(-1, -2)  # (B, G, H/G·N, M)
    return scores.reshape(*q.shape[:3], k.shape[2])
