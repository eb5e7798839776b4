"""Location-aware score: additive, and it also sees where the step before looked, through a convolution over those
weights.

    f_i = F ∗ α_{i−1};   e_ij = wᵀ tanh(W s_{i−1} + V h_j + U f_ij + b)

Symbols: A the hidden width, R filters of T taps; s the query (D), h_j a key (E); W (A, D), V (A, E), U (A, R), F (R,
    T), b and w (A).
Paper: Jan Chorowski, Dzmitry Bahdanau, Dmitriy Serdyuk, Kyunghyun Cho, Yoshua Bengio (2015). Attention-based models
    for speech recognition. NeurIPS. arXiv:1506.07503.
Departs from the paper: F slides over α without being turned round (torch's convolution), which for learned filters is
    the same family.
Cost: O(N·M·(A + R·T)) time, O(N·M·A) memory.
Example: location_aware(q, k, q[..., 1:].softmax(-1), k[0, 0], k[0, 1], v[0, 0], v[0, 1].T, v[1, 0, :, 0],
    v[1, 1, :, 0])
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from foveal.core.score import check_heads
from foveal.errors import expect


def location_aware(
    q: Tensor,
    k: Tensor,
    previous: Tensor,
    w_query: Tensor,
    w_key: Tensor,
    w_location: Tensor,
    filters: Tensor,
    bias: Tensor,
    v: Tensor,
) -> Tensor:
    """(B, H, N, D), (B, G, M, E), the weights of the step before (B, H, N, M) → (B, H, N, M)."""
    check_heads(q, k, same_width=False)
    want = (*q.shape[:3], k.shape[2])
    expect(tuple(previous.shape) == want, "previous", f"the weights of the step before, {want}", tuple(previous.shape))
    hidden, count = len(v), len(filters)
    for name, weight, width in (
        ("w_query", w_query, q.shape[3]),
        ("w_key", w_key, k.shape[3]),
        ("w_location", w_location, count),
    ):
        expect(
            tuple(weight.shape) == (hidden, width),
            name,
            f"({hidden}, {width}), as v and its input are wide",
            tuple(weight.shape),
        )
    return aware(F.linear(q, w_query, bias), F.linear(k, w_key), previous, w_location, filters, v)


def aware(q: Tensor, k: Tensor, previous: Tensor, w_location: Tensor, filters: Tensor, v: Tensor) -> Tensor:
    """wᵀ tanh(q_i + k_j + U f_ij) of what is projected already: (B, H, N, A), (B, G, M, A), (B, H, N, M) → (B, H,
    N, M).
    """
    expect(
        filters.dim() == 2 and filters.shape[1] % 2 == 1,
        "filters",
        "(R, T) with an odd number of taps T",
        tuple(filters.shape),
    )
    rows = previous.flatten(0, 2)[:, None]  # (B·H·N, 1, M)
    seen = _slid(rows, filters)  # f: (B·H·N, R, M)
    place = F.linear(seen.transpose(1, 2), w_location).view(*previous.shape, len(v))  # (B, H, N, M, A)
    content = k.repeat_interleave(q.shape[1] // k.shape[1], 1)  # (B, H, M, A)
    return torch.tanh(q[:, :, :, None] + content[:, :, None] + place) @ v


def _slid(rows: Tensor, filters: Tensor) -> Tensor:
    """F ∗ α: (n, 1, M) → (n, R, M). torch refuses a convolution of no keys,
    so one that is not there stands in for them.
    """
    if rows.shape[2] == 0:
        return _slid(F.pad(rows, (0, 1)), filters)[..., :0]
    return F.conv1d(rows, filters[:, None], padding=filters.shape[1] // 2)
