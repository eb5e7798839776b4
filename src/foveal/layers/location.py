"""Location-based attention: the state alone decides where to look.

    α_i = softmax(W_a s_{i−1});   y_i = Σ_j α_ij h_j

Symbols: s_{i−1} the state before step i, row i of `state` (C); h_j the memory (E); W_a (keys, C), one row for each
    position.
Paper: Minh-Thang Luong, Hieu Pham, Christopher D. Manning (2015). Effective approaches to attention-based neural
    machine translation. EMNLP. arXiv:1508.04025.
Departs from the paper: a memory longer than `keys` is refused, where the paper ignores its end; for a shorter one both
    use the first rows of W_a. The paper reads the current state; pass that one to have its form.
Cost: O(N·M·(C + E)) time, O(N·M) memory.
Example: Location(state_width=14, keys=7)(x, memory)
"""

from torch import Tensor, nn

from foveal.core.mask import Mask
from foveal.core.score.location import location
from foveal.errors import expect
from foveal.layers.attention import check_dropout, check_sizes, check_tokens, look, matrix


class Location(nn.Module):
    """Looks at positions, whatever stands there; `keys` is the longest memory that it can look at."""

    def __init__(self, state_width: int, keys: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        check_sizes(self, state_width=state_width, keys=keys)
        check_dropout(self, dropout)
        self.place = nn.Linear(state_width, keys, bias=False)  # W_a
        self.dropout = dropout

    def forward(self, state: Tensor, memory: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
        """States (B, N, C) and a memory (B, M, E), M ≤ keys → (B, N, E)."""
        check_tokens(self, "state", state, self.place.in_features, self.place.weight)
        check_tokens(self, "memory", memory)
        longest = self.place.out_features
        expect(
            memory.shape[1] <= longest,
            "Location's memory",
            f"at most {longest} tokens",
            memory.shape[1],
            "build it with more keys",
        )
        scores = location(state[:, None], matrix(self, self.place), memory.shape[1])  # (B, 1, N, M)
        return look(scores, memory, mask, self.dropout if self.training else 0.0)
