"""Location score: the state alone says where to look; what stands there is not read.

    e_i = W_a s_{i−1}

Symbols: s_{i−1} the state before step i, (C); W_a (M, C), one row for each position; e_i (M), one score for each
    position.
Paper: Minh-Thang Luong, Hieu Pham, Christopher D. Manning (2015). Effective approaches to attention-based neural
    machine translation. EMNLP. arXiv:1508.04025.
Departs from the paper: more positions than W_a has rows are refused, where the paper ignores the last ones. The paper
    reads the current state; whose it is, is the caller's choice.
Cost: O(N·M·C) time, O(N·M) memory.
Example: location(q, k[0, 0], keys=5)
"""

from torch import Tensor

from foveal.errors import expect


def location(state: Tensor, weight: Tensor, keys: int | None = None) -> Tensor:
    """(B, H, N, C), (M, C) → (B, H, N, M), or the scores of the first `keys` positions only."""
    expect(state.dim() == 4, "state", "4 axes (B, H, N, C)", tuple(state.shape))
    expect(
        weight.dim() == 2 and weight.shape[1] == state.shape[3],
        "location's weight",
        f"(M, {state.shape[3]})",
        tuple(weight.shape),
    )
    keys = len(weight) if keys is None else keys
    expect(0 <= keys <= len(weight), "location's keys", f"at most {len(weight)}, the positions that weight knows", keys)
    return state @ weight[:keys].T
