"""Context-based score: a query is read in the light of the queries before it.

    h_i = (1/i) Σ_{t<i} q_t,  h_0 = 0;   c_i = tanh(W_q q_i + W_h h_i);   e_ij = c_i·(W_k k_j) / √A

Symbols: context(q_i, history) = c_i (A); h_i the history, the mean of all earlier queries; W_q and W_h (A, D), W_k (A,
    E).
Paper: Minh-Thang Luong, Hieu Pham, Christopher D. Manning (2015). Effective approaches to attention-based neural
    machine translation. EMNLP. arXiv:1508.04025.
Paper: Biao Zhang, Deyi Xiong, Jinsong Su (2018). Accelerating neural transformer via an average attention network.
    ACL. arXiv:1805.00631.
Departs from the paper: the joint form is ours. Luong feeds the past into the query through a recurrent net (input
    feeding); the running mean that stands in its place here is Zhang's, without the query itself.
Cost: O((N + M)·A·D + N·M·A) time, O(N·M) memory.
Example: context(q, k, k[0, 0], k[0, 1], k[1, 0])
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from foveal.core.score import check_heads
from foveal.core.score.dot import dot
from foveal.errors import expect


def context(
    q: Tensor, k: Tensor, w_query: Tensor, w_history: Tensor, w_key: Tensor, earlier: Tensor | None = None
) -> Tensor:
    """(B, H, N, D), (B, G, M, E) → (B, H, N, M); `earlier` (B, H, P, D) are queries that came before these."""
    check_heads(q, k, same_width=False)
    hidden, width = len(w_query), q.shape[3]
    for name, weight, size in (
        ("w_query", w_query, width),
        ("w_history", w_history, width),
        ("w_key", w_key, k.shape[3]),
    ):
        expect(
            tuple(weight.shape) == (hidden, size),
            name,
            f"({hidden}, {size}), hidden width and input",
            tuple(weight.shape),
        )
    c = torch.tanh(F.linear(q, w_query) + F.linear(history(q, earlier), w_history))
    return dot(c, F.linear(k, w_key))


def history(q: Tensor, earlier: Tensor | None = None) -> Tensor:
    """The mean of all queries before each one, 0 for the very first: (B, H, N, D) → (B, H, N, D)."""
    wide = q.to(torch.promote_types(q.dtype, torch.float32))  # a long sum loses digits in bfloat16
    before = F.pad(wide.cumsum(2), (0, 0, 1, 0))[:, :, : q.shape[2]]  # Σ_{t<i} q_t
    count = torch.arange(q.shape[2], device=q.device, dtype=wide.dtype)
    if earlier is not None:
        expect(
            earlier.shape[:2] == q.shape[:2] and earlier.shape[3:] == q.shape[3:],
            "earlier",
            "queries like q",
            tuple(earlier.shape),
        )
        before = before + earlier.to(wide.dtype).sum(2, keepdim=True)
        count = count + earlier.shape[2]
    return (before / count.clamp(min=1)[:, None]).to(q.dtype)
