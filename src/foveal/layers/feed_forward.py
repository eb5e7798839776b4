"""Feed-forward network: two linear maps with a non-linearity between them, the same for every token.

    FFN(x) = max(0, x W₁ + b₁) W₂ + b₂

Paper: Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz Kaiser, Illia
    Polosukhin (2017). Attention is all you need. NeurIPS. arXiv:1706.03762.
Departs from the paper: nothing. Another activation may take the place of max(0, ·); dropout, 0 unless given, falls on
    the hidden layer.
Cost: O(N·C·F) time and 2·C·F parameters, C the width and F the hidden width.
Example: FeedForward(14, 28)(x)
"""

from torch import Tensor, nn

from foveal.errors import expect_integer
from foveal.layers.attention import check_activation, check_dropout, check_last


class FeedForward(nn.Module):
    """(…, width) → (…, width), through a hidden layer."""

    def __init__(self, width: int, hidden: int, activation: nn.Module | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        expect_integer(width, "FeedForward's width")
        expect_integer(hidden, "FeedForward's hidden width")
        check_activation(self, activation)
        check_dropout(self, dropout)
        self.width = width
        self.inner = nn.Linear(width, hidden)
        self.activation = nn.ReLU() if activation is None else activation
        self.dropout = nn.Dropout(dropout)
        self.outer = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        check_last(self, x, self.width, self.inner.weight)
        return self.outer(self.dropout(self.activation(self.inner(x))))  # type: ignore[no-any-return]
