"""Location-aware attention: each step also sees where the step before looked, so that it can move on along the memory.

    f_i = F ∗ α_{i−1};   e_ij = wᵀ tanh(W s_{i−1} + V h_j + U f_ij + b);   α_i = softmax_j e;   y_i = Σ_j α_ij h_j

Symbols: s_{i−1} the state before step i (C), h_j the memory (E), A the hidden width, F: `filters` filters of `taps`
    taps over the weights of the step before.
Paper: Jan Chorowski, Dzmitry Bahdanau, Dmitriy Serdyuk, Kyunghyun Cho, Yoshua Bengio (2015). Attention-based models
    for speech recognition. NeurIPS. arXiv:1506.07503.
Departs from the paper: without the paper's further sharpening, smoothing and windowing of α. Before the first step α
    is 0: nothing was looked at.
Cost: O(M·(A + filters·taps)) time, O(M·A) memory for each step.
Example: LocationAware(state_width=14, key_width=10, hidden=5, filters=3, taps=3)(x[:, 0], wide,
    wide[..., 0].softmax(-1))
"""

import torch
from torch import Tensor, nn

from foveal.core.attend import normalise, weigh
from foveal.core.mask import Mask
from foveal.core.score.location_aware import aware
from foveal.errors import FovealError, expect, short_repr
from foveal.layers.attention import check_dropout, check_dtype, check_sizes, check_tokens, hidden, matrix


class LocationAware(nn.Module):
    """One step of a decoder: it takes the weights of the step before and gives back its own, for the next."""

    def __init__(
        self, state_width: int, key_width: int, hidden: int, *, filters: int = 10, taps: int = 31, dropout: float = 0.0
    ) -> None:
        super().__init__()
        check_sizes(self, state_width=state_width, key_width=key_width, hidden=hidden, filters=filters, taps=taps)
        expect(taps % 2 == 1, "LocationAware's taps", "an odd number, so that a filter has a middle", taps)
        check_dropout(self, dropout)
        self.state = nn.Linear(state_width, hidden)  # W and b
        self.key = nn.Linear(key_width, hidden, bias=False)  # V
        self.place = nn.Linear(filters, hidden, bias=False)  # U
        self.filters = nn.Parameter(torch.empty(filters, taps).uniform_(-(taps**-0.5), taps**-0.5))  # F
        self.v = nn.Parameter(torch.empty(hidden).uniform_(-(hidden**-0.5), hidden**-0.5))  # w
        self.dropout = dropout

    def keys(self, memory: Tensor) -> Tensor:
        """V h_j for all keys, (B, M, E) → (B, M, A): what no step changes."""
        check_tokens(self, "memory", memory, self.key.in_features, self.key.weight)
        projected: Tensor = self.key(memory)
        return projected

    def forward(
        self,
        state: Tensor,
        memory: Tensor,
        previous: Tensor | None = None,
        *,
        keys: Tensor | None = None,
        mask: Mask | Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """A state (B, C), a memory (B, M, E), the weights of the step before (B, M) → y (B,
        E) and this step's weights (B, M).

        keys: those of this memory, if they are known already. mask: of one query, the step itself.
        """
        width = self.state.in_features
        if not isinstance(state, Tensor):
            raise FovealError(f"LocationAware's state: expected (B, {width}), one step, got {short_repr(state)}")
        expect(
            state.dim() == 2 and state.shape[1] == width,
            "LocationAware's state",
            f"(B, {width}), one step",
            tuple(state.shape),
        )
        check_dtype(self, "state", state, self.state.weight)
        keys = self.keys(memory) if keys is None else keys
        check_tokens(self, "memory", memory, self.key.in_features, self.key.weight)
        check_tokens(self, "keys", keys)
        want = (*memory.shape[:2], len(self.v))
        expect(
            tuple(keys.shape) == want, "LocationAware's keys", f"{want}, as keys(memory) gives them", tuple(keys.shape)
        )
        previous = memory.new_zeros(memory.shape[:2]) if previous is None else previous
        if not isinstance(previous, Tensor):
            raise FovealError(f"LocationAware's previous: expected a tensor (B, M), got {short_repr(previous)}")
        expect(
            previous.shape == memory.shape[:2],
            "LocationAware's previous",
            tuple(memory.shape[:2]),
            tuple(previous.shape),
        )
        # of shape (B, 1, 1, M)
        scores = aware(
            self.state(state)[:, None, None],
            keys[:, None],
            previous[:, None, None],
            matrix(self, self.place),
            self.filters,
            self.v,
        )
        scores = hidden(scores, mask)
        y = weigh(scores, memory[:, None], dropout=self.dropout if self.training else 0.0)  # (B, 1, 1, E)
        return y[:, 0, 0], normalise(scores)[:, 0, 0].to(memory.dtype)
