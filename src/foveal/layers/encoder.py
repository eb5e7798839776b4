"""Encoder block: tokens look at each other, then each is transformed by itself; a residual connection around both.

    post-LN:  x̂ = LN(x + Attention(x));   y = LN(x̂ + FFN(x̂))
    pre-LN:   x̂ = x + Attention(LN(x));   y = x̂ + FFN(LN(x̂))

Paper: Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz Kaiser, Illia
    Polosukhin (2017). Attention is all you need. NeurIPS. arXiv:1706.03762.
Departs from the paper: nothing with norm=PostNorm; norm=PreNorm is today's usual form, and a stack of it ends with one
    more LayerNorm, which is the stack's to add.
Cost: that of its two layers.
Example: Encoder(MultiHead(14, 2), FeedForward(14, 28), norm=PreNorm)(x)
"""

from typing import Any

from torch import Tensor, nn

from foveal.errors import FovealError, expect, expect_integer, is_integer, short_repr
from foveal.layers.feed_forward import FeedForward  # noqa: F401  for the example above
from foveal.layers.multihead import MultiHead  # noqa: F401  for the example above
from foveal.layers.residual import PostNorm, PreNorm, Residual  # noqa: F401  PreNorm for the example above


class Encoder(nn.Module):
    """One block out of parts: any layer that keeps the shape of its input may stand for the attention,
    on tokens or on grids.
    """

    def __init__(
        self,
        attention: nn.Module,
        feed_forward: nn.Module,
        norm: type[Residual] = PostNorm,
        dropout: float = 0.0,
        *,
        width: int | None = None,
        drop_path: float = 0.0,
    ) -> None:
        """norm: how each layer is wrapped. dropout: on each layer's output. width: needed only if neither layer has
        a `width`. drop_path: how often each layer is left out for a sample, in training.
        """
        super().__init__()
        check_norm(self, norm)
        self.width = shared_width(width, attention, feed_forward)
        self.attention = norm(attention, self.width, dropout, drop_path)
        self.feed_forward = norm(feed_forward, self.width, dropout, drop_path)

    def forward(self, x: Tensor, *others: Any, **named: Any) -> Tensor:
        """x (B, N, C), or a grid (B, h, w, C); all the rest (mask=, cache=, kernel=) goes to the attention."""
        y: Tensor = self.feed_forward(self.attention(x, *others, **named))
        return y


def check_norm(block: nn.Module, norm: type[Residual]) -> None:
    fits = isinstance(norm, type) and issubclass(norm, Residual)
    expect(fits, f"{type(block).__name__}'s norm", "the class PreNorm, PostNorm or Residual", short_repr(norm))


def shared_width(width: int | None, *layers: nn.Module) -> int:
    """The width that all layers of a block agree on."""
    for layer in layers:
        expect(isinstance(layer, nn.Module), "a block's layers", "layers (torch.nn.Module)", short_repr(layer))
    if width is not None:
        expect_integer(width, "a block's width")
    widths = [getattr(layer, "width", None) for layer in layers]
    found = {int(number) for number in (width, *widths) if number is not None and is_integer(number)}
    if len(found) != 1:
        named = ", ".join(f"{type(layer).__name__} {number}" for layer, number in zip(layers, widths, strict=True))
        raise FovealError(
            f"a block's layers: expected one width, got {named}{'' if width is None else f' and width={width}'}; give "
            "width="
        )
    return found.pop()
