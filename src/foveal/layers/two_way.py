"""Two-way attention: two sources, such as image and text, each ask the other at the same time.

    a′ = MultiHead(queries a, memory b);   b′ = MultiHead(queries b, memory a)

Paper: Jiasen Lu, Dhruv Batra, Devi Parikh, Stefan Lee (2019). ViLBERT: pretraining task-agnostic visiolinguistic
    representations for vision-and-language tasks. NeurIPS. arXiv:1908.02265.
Departs from the paper: each direction works in the width of its queries, where the paper takes a third width for both.
Cost: O(N·M·(C + C′)) time, N and M the tokens of the two sources, C and C′ their widths.
Example: TwoWay(14, 10, 2)(x, wide)
"""

from torch import Tensor, nn

from foveal.core.mask import Mask
from foveal.errors import expect, expect_integer
from foveal.layers.multihead import MultiHead


class TwoWay(nn.Module):
    """Two cross-attentions; neither sees the other's result."""

    def __init__(self, width: int, other_width: int, heads: int, *, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        for name, number in (("width", width), ("other_width", other_width), ("heads", heads)):
            expect_integer(number, f"TwoWay's {name}")
        expect(
            width % heads == 0 and other_width % heads == 0,
            "TwoWay's heads",
            f"a divisor of {width} and of {other_width}",
            heads,
        )
        self.width, self.other_width, self.heads = width, other_width, heads
        self.a_asks = MultiHead(width, heads, key_width=other_width, dropout=dropout, bias=bias)
        self.b_asks = MultiHead(other_width, heads, key_width=width, dropout=dropout, bias=bias)

    def forward(
        self,
        a: Tensor,
        b: Tensor,
        *,
        a_mask: Mask | Tensor | None = None,
        b_mask: Mask | Tensor | None = None,
        kernel: str = "auto",
    ) -> tuple[Tensor, Tensor]:
        """a (B, N, C) and b (B, M, C′) → a′ and b′ of the same shapes. a_mask: where a may look in b, (N, M).

        b_mask: where b may look in a.
        """
        return self.a_asks(a, b, mask=a_mask, kernel=kernel), self.b_asks(b, a, mask=b_mask, kernel=kernel)
