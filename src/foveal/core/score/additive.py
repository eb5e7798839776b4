"""Additive score: a one-layer network reads a query and a key together.

    e_ij = vᵀ tanh(W_q q_i + W_k k_j)

Symbols: A the hidden width; W_q (A, D), W_k (A, E), v (A). q and k may differ in width.
Paper: Dzmitry Bahdanau, Kyunghyun Cho, Yoshua Bengio (2015). Neural machine translation by jointly learning to align
    and translate. ICLR. arXiv:1409.0473.
Departs from the paper: nothing.
Cost: O(N·M·A) time and memory.
Example: additive(q, k, k[0, 0], k[0, 1], v[0, 0, :, 0])
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from foveal.core.blockwise import by_group
from foveal.core.score import check_heads
from foveal.errors import expect


def additive(q: Tensor, k: Tensor, w_query: Tensor, w_key: Tensor, v: Tensor) -> Tensor:
    """(B, H, N, D), (B, G, M, E) → (B, H, N, M)."""
    check_heads(q, k, same_width=False)
    for name, weight, width in (("w_query", w_query, q.shape[3]), ("w_key", w_key, k.shape[3])):
        expect(
            tuple(weight.shape) == (len(v), width),
            name,
            f"({len(v)}, {width}), as v and its input are wide",
            tuple(weight.shape),
        )
    return joined(F.linear(q, w_query), F.linear(k, w_key), v)


def joined(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """vᵀ tanh(q_i + k_j) of what is projected already: (B, H, N, A), (B, G, M, A), (A) → (B, H, N, M)."""
    rows = by_group(q, k.shape[1])  # (B, G, H/G·N, A)
    scores = torch.tanh(rows[:, :, :, None] + k[:, :, None]) @ v  # (B, G, H/G·N, M)
    return scores.reshape(*q.shape[:3], k.shape[2])
