"""Rotary positions: q and k are turned by their positions, so that their product knows only the distance.

    q′_i = R_i q_i;   k′_j = R_j k_j;   q′_i·k′_j = q_i · R_{j−i} k_j;   R_p turns the pair (c, c + D/2)
        by p / base^(2c/D), c < D/2

Symbols: the pairs are halves, channel c with channel c + D/2, as in Llama's weights in transformers; GPT-J and the
    paper pair neighbours, 2c with 2c + 1. The two differ by a fixed order of the channels.
Paper: Jianlin Su, Yu Lu, Shengfeng Pan, Ahmed Murtadha, Bo Wen, Yunfeng Liu (2021). RoFormer: enhanced transformer
    with rotary position embedding. arXiv:2104.09864.
Departs from the paper: halves are paired instead of neighbours.
Cost: O((N + M)·D) for each head; no parameters, any length.
Example: Rotary(8).rotate(q, k)
"""

import math

import torch
from torch import Tensor

from foveal.errors import FovealError, expect, is_integer, is_number, short_repr
from foveal.position.position import Position


class Rotary(Position):
    def __init__(self, width: int | None = None, base: float = 10000.0) -> None:
        """width: the channels of one head; those of q unless given."""
        super().__init__()
        fits = width is None or (is_integer(width) and width >= 2 and width % 2 == 0)
        expect(fits, "Rotary's width", "an even number of channels in a head, at least 2", short_repr(width))
        expect(is_number(base) and 0 < base < math.inf, "Rotary's base", "above 0", short_repr(base))
        self.width, self.base = width, base

    def rotate(self, q: Tensor, k: Tensor, query_start: int = 0, key_start: int = 0) -> tuple[Tensor, Tensor]:
        for name, x in (("q", q), ("k", k)):
            if not isinstance(x, Tensor) or not x.is_floating_point():
                got = x.dtype if isinstance(x, Tensor) else short_repr(x)
                raise FovealError(f"Rotary's {name}: expected a floating tensor, heads (B, H, N, D), got {got}")
        width = q.shape[-1] if self.width is None else self.width
        if width % 2:
            raise FovealError(
                f"Rotary's q: expected heads (B, H, N, D) with an even D, got {tuple(q.shape)}; give the layer "
                "another head_width"
            )
        for name, x in (("q", q), ("k", k)):
            if x.dim() != 4 or x.shape[3] != width:
                raise FovealError(
                    f"Rotary's {name}: expected heads (B, H, N, {width}), got {tuple(x.shape)}; Rotary() takes the "
                    "width of q"
                )
        return turned(q, query_start, self.base), turned(k, key_start, self.base)

    def extra_repr(self) -> str:
        return f"{'' if self.width is None else f'{self.width}, '}base={self.base:g}"


def turned(x: Tensor, start: int = 0, base: float = 10000.0) -> Tensor:
    """x (B, H, N, D), row n turned by R_{start + n}."""
    length, width = x.shape[2], x.shape[3]
    wide = torch.promote_types(x.dtype, torch.float32)  # in bfloat16 an angle of 1000 would be off by a full turn
    doubled = torch.arange(0, width, 2, device=x.device).to(wide)  # 2c
    positions = torch.arange(start, start + length, device=x.device).to(wide)
    angles = positions[:, None] * base ** (-doubled / width)  # (N, D/2)
    cos, sin = angles.cos(), angles.sin()
    first, second = x.to(wide).chunk(2, -1)  # (B, H, N, D/2) each
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)
