"""Context-based attention: a query looks in the light of the queries before it.

    h_i = (1/i) Σ_{t<i} q_t,  h_0 = 0;   c_i = tanh(W_q q_i + W_h h_i);   e_ij = c_i·(W_k k_j)/√A
    α = softmax_j e;   y_i = Σ_j α_ij k_j

Symbols: context(q_i, history) = c_i (A); h_i the history, the mean of all earlier queries; the keys are also the
    values.
Paper: Minh-Thang Luong, Hieu Pham, Christopher D. Manning (2015). Effective approaches to attention-based neural
    machine translation. EMNLP. arXiv:1508.04025.
Paper: Biao Zhang, Deyi Xiong, Jinsong Su (2018). Accelerating neural transformer via an average attention network.
    ACL. arXiv:1805.00631.
Departs from the paper: the joint form is ours. Luong feeds the past into the query through a recurrent net (input
    feeding); the running mean that stands in its place here is Zhang's, without the query itself.
Cost: O((N·C + M·E)·A + N·M·A) time, O(N·M) memory.
Example: Context(query_width=14, key_width=10, hidden=7)(x, wide)
"""

from torch import Tensor, nn

from foveal.core.mask import Mask
from foveal.core.score.context import context
from foveal.layers.attention import check_dropout, check_sizes, check_tokens, look, matrix


class Context(nn.Module):
    """What a query sees depends on its past, and never on later queries."""

    def __init__(self, query_width: int, key_width: int, hidden: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        check_sizes(self, query_width=query_width, key_width=key_width, hidden=hidden)
        check_dropout(self, dropout)
        self.query = nn.Linear(query_width, hidden, bias=False)
        self.history = nn.Linear(query_width, hidden, bias=False)
        self.key = nn.Linear(key_width, hidden, bias=False)
        self.dropout = dropout

    def forward(
        self, query: Tensor, memory: Tensor, *, earlier: Tensor | None = None, mask: Mask | Tensor | None = None
    ) -> Tensor:
        """Tokens (B, N, C) and a memory (B, M, E) → (B, N, E); earlier: queries (B, P, C) of the steps before these."""
        check_tokens(self, "query", query, self.query.in_features, self.query.weight)
        check_tokens(self, "memory", memory, self.key.in_features, self.key.weight)
        before = None
        if earlier is not None:
            check_tokens(self, "earlier", earlier, self.query.in_features, self.query.weight)
            before = earlier[:, None]
        w_query, w_history, w_key = (matrix(self, part) for part in (self.query, self.history, self.key))
        scores = context(query[:, None], memory[:, None], w_query, w_history, w_key, before)
        return look(scores, memory, mask, self.dropout if self.training else 0.0)
