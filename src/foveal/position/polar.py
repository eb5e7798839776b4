"""Polar positions on a grid: how far a token is from the image's centre, and at what o'clock. For a camera that looks
down a pipe.

    PE(y, x) = [PE_{⌈C/2⌉}(r) ; sin θ, cos θ, sin 2θ, cos 2θ, …];   (r, θ) = polar(x − (w−1)/2, y − (h−1)/2)
    θ = 0 at 12 o'clock, clockwise

Symbols: PE_c the sinusoidal position of width c, r in tokens. Whole multiples of θ meet again at 2π: 12 o'clock has no
    seam.
Paper: Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz Kaiser, Illia
    Polosukhin (2017). Attention is all you need. NeurIPS. arXiv:1706.03762.
Departs from the paper: it has no polar form; this one is foveal's own, the paper's sinusoid on the radius and a
    Fourier series on the angle. The very centre has no angle: there that half is 0.
Cost: O(h·w·C); no parameters, any grid.
Example: Polar(14)(image)
"""

import torch
from torch import Tensor

from foveal.errors import expect, expect_integer
from foveal.position.position import Position, check_places
from foveal.position.sinusoidal import sinusoid


class Polar(Position):
    def __init__(self, width: int) -> None:
        super().__init__()
        expect_integer(width, "Polar's width", 4, "at least 4, for the radius and a sine and cosine of the angle")
        self.width = width

    def embed(self, x: Tensor, start: int = 0) -> Tensor:
        """A grid of tokens (B, h, w, C) with its positions added. A grid has one centre: start is 0."""
        check_places(self, x, f"a grid (B, h, w, {self.width})", self.width, start, "unflatten (B, N, C) into its grid")
        expect(start == 0, "Polar's start", "0, as a grid has one centre", start)
        wide = torch.promote_types(x.dtype, torch.float32)
        radius, angle = clock(x.shape[1], x.shape[2], x.device, wide)
        around = harmonics(angle, self.width // 2) * (radius > 0).to(wide)[..., None]
        position = torch.cat((sinusoid(radius, self.width - self.width // 2), around), -1)  # (h, w, C)
        return x + position.to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.width}"


def clock(height: int, width: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Distance from the centre in tokens, and angle from 12 o'clock, clockwise, of each token of a grid:
    two of (h, w).
    """
    # a middle row is 0, never −0: ONNX divides by it
    up = ((height - 1) / 2 - torch.arange(height, device=device).to(dtype))[:, None]
    right = (torch.arange(width, device=device).to(dtype) - (width - 1) / 2)[None, :]
    return (up**2 + right**2).sqrt(), torch.atan2(right, up)


def harmonics(angle: Tensor, width: int) -> Tensor:
    """sin θ, cos θ, sin 2θ, cos 2θ, …: (…) → (…, width)."""
    turns = torch.arange(1, (width + 1) // 2 + 1, device=angle.device).to(angle.dtype)
    angles = angle[..., None] * turns  # (…, ⌈width/2⌉)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)[..., :width]
