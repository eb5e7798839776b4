"""Sinusoidal positions: each pair of channels is a clock hand that turns at its own speed, so a shift is a rotation.

    PE(pos, 2i) = sin(pos / 10000^(2i/C));   PE(pos, 2i+1) = cos(pos / 10000^(2i/C));   embed(x)_pos = x_pos + PE(pos)

Symbols: C the width. PE(pos + k) = M_k · PE(pos), where M_k turns the pair (2i, 2i+1) by k / 10000^(2i/C), whatever
    pos is.
Paper: Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz Kaiser, Illia
    Polosukhin (2017). Attention is all you need. NeurIPS. arXiv:1706.03762.
Departs from the paper: nothing. An odd width ends with a sine that has no cosine.
Cost: O(N·C); no parameters, any length.
Example: Sinusoidal(14)(x)
"""

import torch
from torch import Tensor

from foveal.errors import expect_integer
from foveal.position.position import Position, check_places


class Sinusoidal(Position):
    def __init__(self, width: int) -> None:
        super().__init__()
        expect_integer(width, "Sinusoidal's width")
        self.width = width

    def embed(self, x: Tensor, start: int = 0) -> Tensor:
        check_places(self, x, f"(B, N, {self.width})", self.width, start, "use Sinusoidal2d for a grid")
        positions = torch.arange(start, start + x.shape[1], device=x.device)
        # Angles in float32 at least: bfloat16 cannot tell 257 from 256.
        return x + sinusoid(positions.to(torch.promote_types(x.dtype, torch.float32)), self.width).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.width}"


def sinusoid(positions: Tensor, width: int) -> Tensor:
    """PE of any positions, (…) → (…, width).

    Whole numbers are computed in float32, floating ones in their own dtype.
    """
    exact = positions if positions.is_floating_point() else positions.to(torch.float32)
    doubled = torch.arange(0, width, 2, device=positions.device).to(exact.dtype)  # 2i
    angles = exact[..., None] * 10000.0 ** (-doubled / width)  # (…, ⌈C/2⌉)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)[..., :width]
