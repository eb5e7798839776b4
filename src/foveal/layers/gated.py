"""Gated feed-forward network: one linear map decides how much of another passes (GEGLU; SwiGLU with nn.SiLU()).

    FFN(x) = (δ(x W) ⊙ x V) W₂

Symbols: δ the activation, GELU unless given; W and V stand in one matrix, W first.
Paper: Noam Shazeer (2020). GLU variants improve transformer. arXiv:2002.05202.
Departs from the paper: the three maps have biases unless bias=False; dropout, 0 unless given, falls on the hidden
    layer.
Cost: O(N·C·F) time and 3·C·F parameters, C the width and F the hidden width: at 2/3 of the hidden width as dear as the
    plain network.
Example: Gated(14, 28)(x)
"""

from torch import Tensor, nn

from foveal.errors import expect_integer
from foveal.layers.attention import check_activation, check_dropout, check_last


class Gated(nn.Module):
    """(…, width) → (…, width), through a gated hidden layer."""

    def __init__(
        self, width: int, hidden: int, activation: nn.Module | None = None, dropout: float = 0.0, *, bias: bool = True
    ) -> None:
        super().__init__()
        expect_integer(width, "Gated's width")
        expect_integer(hidden, "Gated's hidden width")
        check_activation(self, activation)
        check_dropout(self, dropout)
        self.width = width
        self.inner = nn.Linear(width, 2 * hidden, bias)
        self.activation = nn.GELU() if activation is None else activation
        self.dropout = nn.Dropout(dropout)
        self.outer = nn.Linear(hidden, width, bias)

    def forward(self, x: Tensor) -> Tensor:
        check_last(self, x, self.width, self.inner.weight)
        gate, passed = self.inner(x).chunk(2, -1)  # x W and x V, (…, F) each
        return self.outer(self.dropout(self.activation(gate) * passed))  # type: ignore[no-any-return]
