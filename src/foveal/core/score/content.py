"""Content-based score: what a query asks for against what a key holds, compared by their angle.

    e_ij = β · cos(W_q q_i, W_k k_j)

Symbols: content(q) = W_q q and content(k) = W_k k, with W_q (A, D) and W_k (A, E); β > 0 the strength.
Paper: Alex Graves, Greg Wayne, Ivo Danihelka (2014). Neural Turing machines. arXiv:1410.5401.
Departs from the paper: keys are mapped by W_k too, so that both sides may differ in width; the paper compares with the
    memory's rows as they are (W_k = 1).
Cost: O((N + M)·A·D + N·M·A) time, O(N·M) memory.
Example: content(q, k, k[0, 0], k[0, 1], strength=2.0)
"""

import torch.nn.functional as F
from torch import Tensor

from foveal.core.score import check_heads
from foveal.core.score.cosine import cosine
from foveal.errors import expect


def content(q: Tensor, k: Tensor, w_query: Tensor, w_key: Tensor, strength: float | Tensor = 1.0) -> Tensor:
    """(B, H, N, D), (B, G, M, E) → (B, H, N, M)."""
    check_heads(q, k, same_width=False)
    hidden = len(w_query)
    for name, weight, width in (("w_query", w_query, q.shape[3]), ("w_key", w_key, k.shape[3])):
        expect(
            tuple(weight.shape) == (hidden, width),
            name,
            f"({hidden}, {width}), hidden width and input",
            tuple(weight.shape),
        )
    return cosine(F.linear(q, w_query), F.linear(k, w_key)) * strength
