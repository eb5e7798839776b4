"""Additive attention: a one-layer network scores each query against each key.

    e_ij = vᵀ tanh(W_q q_i + W_k k_j);   α = softmax_j e;   y_i = Σ_j α_ij k_j

Symbols: A the hidden width; q (C) and k (E) may differ in width; the keys are also the values.
Paper: Dzmitry Bahdanau, Kyunghyun Cho, Yoshua Bengio (2015). Neural machine translation by jointly learning to align
    and translate. ICLR. arXiv:1409.0473.
Departs from the paper: nothing. The paper's q_i is the decoder's state before step i.
Cost: O(N·M·A) time and memory.
Example: Additive(query_width=14, key_width=10, hidden=7)(x, wide)
"""

import torch
from torch import Tensor, nn

from foveal.core.mask import Mask
from foveal.core.score.additive import joined
from foveal.errors import expect
from foveal.layers.attention import check_dropout, check_sizes, check_tokens, look


class Additive(nn.Module):
    """Bahdanau's attention.

    A decoder that goes step by step computes `keys(memory)` once and passes them to every step.
    """

    def __init__(self, query_width: int, key_width: int, hidden: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        check_sizes(self, query_width=query_width, key_width=key_width, hidden=hidden)
        check_dropout(self, dropout)
        self.query = nn.Linear(query_width, hidden, bias=False)  # W_q
        self.key = nn.Linear(key_width, hidden, bias=False)  # W_k
        self.v = nn.Parameter(torch.empty(hidden).uniform_(-(hidden**-0.5), hidden**-0.5))
        self.dropout = dropout

    def keys(self, memory: Tensor) -> Tensor:
        """W_k k_j for all keys, (B, M, E) → (B, M, A): the part of the scores that no query changes."""
        check_tokens(self, "memory", memory, self.key.in_features, self.key.weight)
        projected: Tensor = self.key(memory)
        return projected

    def forward(
        self, query: Tensor, memory: Tensor, *, keys: Tensor | None = None, mask: Mask | Tensor | None = None
    ) -> Tensor:
        """Tokens (B, N, C) and a memory (B, M, E) → (B, N, E).

        keys: those of this memory, if they are known already.
        """
        check_tokens(self, "query", query, self.query.in_features, self.query.weight)
        keys = self.keys(memory) if keys is None else keys
        check_tokens(self, "memory", memory, self.key.in_features, self.key.weight)
        check_tokens(self, "keys", keys)
        want = (*memory.shape[:2], len(self.v))
        expect(tuple(keys.shape) == want, "Additive's keys", f"{want}, as keys(memory) gives them", tuple(keys.shape))
        scores = joined(self.query(query)[:, None], keys[:, None], self.v)  # (B, 1, N, M)
        return look(scores, memory, mask, self.dropout if self.training else 0.0)
