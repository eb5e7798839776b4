"""Residual connection: a layer adds to what it is given; LayerNorm stands before it (pre-LN), after the sum (post-LN),
or nowhere.

    residual: x + f(x);   pre-LN: x + f(LN(x));   post-LN: LN(x + f(x));   without the sum: f(x), f(LN(x)), LN(f(x))
    stochastic depth, in training:  f ← b·f/(1 − p),   b ∈ {0, 1} drawn for each sample,   P(b = 0) = p

Symbols: f the layer with dropout on its output; what else the layer is given (a memory, a mask, a cache) is passed
    through; p = drop_path, 0 unless given.
Paper: Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz Kaiser, Illia
    Polosukhin (2017). Attention is all you need. NeurIPS. arXiv:1706.03762.
Paper, if isinstance(self, PreNorm): Ruibin Xiong, Yunchang Yang, Di He, Kai Zheng, Shuxin Zheng, Chen Xing, Huishuai
    Zhang, Yanyan Lan, Liwei Wang, Tie-Yan Liu (2020). On layer normalization in the transformer architecture. ICML.
    arXiv:2002.04745.
Paper, if self.drop_path > 0: Gao Huang, Yu Sun, Zhuang Liu, Daniel Sedra, Kilian Q. Weinberger (2016). Deep networks
    with stochastic depth. ECCV. arXiv:1603.09382.
Departs from the paper: what stochastic depth leaves is scaled by 1/(1 − p) in training, where the paper scales by
    1 − p in evaluation. The forms without the sum are for an ablation: they show what the residual connection is worth.
Cost: O(N·C) beside the layer's own; 2·C parameters for LayerNorm.
Example: PreNorm(nn.Linear(14, 14), 14)(x)
"""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from foveal.errors import FovealError, expect, expect_integer, short_repr
from foveal.layers.attention import check_dropout, check_dtype, check_last


class Residual(nn.Module):
    """x + f(x), and the base of the two with LayerNorm."""

    def __init__(self, layer: nn.Module, width: int, dropout: float = 0.0, drop_path: float = 0.0) -> None:
        """drop_path: how often the layer is left out for a sample, in training."""
        super().__init__()
        expect(
            isinstance(layer, nn.Module),
            f"{type(self).__name__}'s layer",
            "a layer (torch.nn.Module)",
            short_repr(layer),
        )
        expect_integer(width, f"{type(self).__name__}'s width")
        check_dropout(self, dropout)
        check_dropout(self, drop_path, "drop_path")
        self.layer, self.width, self.dropout, self.drop_path = layer, width, dropout, drop_path

    def change(self, x: Tensor, *others: Any, **named: Any) -> Tensor:
        """f(x), with dropout."""
        if not isinstance(x, Tensor):
            raise FovealError(
                f"{type(self).__name__}'s input: expected a tensor (…, {self.width}), got {short_repr(x)}"
            )
        y: Tensor = self.layer(x, *others, **named)
        y = functional.dropout(y, self.dropout, self.training)
        if not self.training or self.drop_path == 0:
            return y
        kept = y.new_ones(y.shape[0], *(1,) * (y.dim() - 1))  # one number for each sample
        return y * functional.dropout(kept, self.drop_path)

    def joined(self, x: Tensor, change: Tensor) -> Tensor:
        """The connection itself: what the layer was given, and what it makes of it."""
        return x + change

    def forward(self, x: Tensor, *others: Any, **named: Any) -> Tensor:
        return self.joined(x, self.change(x, *others, **named))


class PreNorm(Residual):
    """x + f(LN(x))."""

    def __init__(self, layer: nn.Module, width: int, dropout: float = 0.0, drop_path: float = 0.0) -> None:
        super().__init__(layer, width, dropout, drop_path)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, *others: Any, **named: Any) -> Tensor:
        check_last(self, x, self.width)
        if x.element_size() > 2:  # LayerNorm takes tokens of 16 bits with weights of 32
            check_dtype(self, "input", x, self.norm.weight)
        return self.joined(x, self.change(self.norm(x), *others, **named))


class PostNorm(Residual):
    """LN(x + f(x))."""

    def __init__(self, layer: nn.Module, width: int, dropout: float = 0.0, drop_path: float = 0.0) -> None:
        super().__init__(layer, width, dropout, drop_path)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, *others: Any, **named: Any) -> Tensor:
        y: Tensor = self.norm(self.joined(x, self.change(x, *others, **named)))
        return y


class Plain(Residual):
    """f(x): no connection around the layer."""

    def joined(self, x: Tensor, change: Tensor) -> Tensor:
        return change


class PlainPreNorm(Plain, PreNorm):
    """f(LN(x))."""


class PlainPostNorm(Plain, PostNorm):
    """LN(f(x))."""
