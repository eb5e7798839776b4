"""Content-based attention: looks for keys that hold what the query asks for, compared by their angle.

    e_ij = β · cos(W_q q_i, W_k k_j);   α = softmax_j e;   y_i = Σ_j α_ij k_j

Symbols: content(·) = W·, to a common width A; β > 0 the strength, learned; the keys are also the values.
Paper: Alex Graves, Greg Wayne, Ivo Danihelka (2014). Neural Turing machines. arXiv:1410.5401.
Departs from the paper: keys are mapped too, so that both sides may differ in width; β is one learned number, where the
    paper's controller gives one for each step.
Cost: O((N·C + M·E)·A + N·M·A) time, O(N·M) memory.
Example: Content(query_width=14, key_width=10, hidden=7)(x, wide)
"""

import math

import torch
from torch import Tensor, nn

from foveal.core.mask import Mask
from foveal.core.score.content import content
from foveal.layers.attention import check_dropout, check_sizes, check_tokens, look, matrix


class Content(nn.Module):
    def __init__(self, query_width: int, key_width: int, hidden: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        check_sizes(self, query_width=query_width, key_width=key_width, hidden=hidden)
        check_dropout(self, dropout)
        self.query = nn.Linear(query_width, hidden, bias=False)
        self.key = nn.Linear(key_width, hidden, bias=False)
        # A cosine of random vectors varies by 1/√A, so that β = √A begins with scores as spread as those of a scaled
        # dot product.
        self.log_strength = nn.Parameter(torch.tensor(math.log(hidden) / 2))
        self.dropout = dropout

    def forward(self, query: Tensor, memory: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
        """Tokens (B, N, C) and a memory (B, M, E) → (B, N, E)."""
        check_tokens(self, "query", query, self.query.in_features, self.query.weight)
        check_tokens(self, "memory", memory, self.key.in_features, self.key.weight)
        scores = content(
            query[:, None], memory[:, None], matrix(self, self.query), matrix(self, self.key), self.log_strength.exp()
        )
        return look(scores, memory, mask, self.dropout if self.training else 0.0)
