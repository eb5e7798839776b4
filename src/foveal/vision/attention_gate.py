"""Attention gate: a decoder's coarse signal says which places of the encoder's fine map may pass.

    q = ψᵀ δ(W_x x↓ + W_g g + b_g) + b_ψ;   α = σ(q)↑;   y_c(i, j) = x_c(i, j) · α(i, j)

Symbols: x the encoder's map, g the gating signal; x↓ is x on the grid of g, ↑ resamples to the grid of x, both by
    bilinear interpolation; W_x, W_g, ψ are 1×1; δ ReLU, σ a sigmoid, unless given.
Paper: Ozan Oktay, Jo Schlemper, Loic Le Folgoc, Matthew Lee, Mattias Heinrich, Kazunari Misawa, Kensaku Mori, Steven
    McDonagh, Nils Y. Hammerla, Bernhard Kainz, Ben Glocker, Daniel Rueckert (2018). Attention U-Net: Learning where to
    look for the pancreas. MIDL. arXiv:1804.03999.
Departs from the paper: images instead of volumes. How x is brought to the grid of g, the paper leaves open: for half
    the side ours is the mean of 2×2 places; the authors' code weighs these four in W_x, and projects y again. A signal
    that was resampled to the grid of x first makes both arrows nothing, as in MONAI.
Cost: O(h·w·C) time to read and to scale the map, 2·h_g·w_g·F·(C + G + 1) operations on the grid of g, for F hidden
    channels and G of the signal; F·(C + G + 2) + 1 parameters.
Example: AttentionGate(6, 5, hidden=4)(maps, maps[:, :5, ::2, ::2])
"""

from torch import Tensor, nn
from torch.nn import functional

from foveal.errors import expect
from foveal.layers.attention import check_sizes
from foveal.vision.maps import check_maps, check_parts


class AttentionGate(nn.Module):
    """Maps (B, width, h, w) and a signal (B, signal_width, h_g, w_g) → the maps, each place scaled by its gate."""

    def __init__(
        self,
        width: int,
        signal_width: int,
        *,
        hidden: int | None = None,
        activation: nn.Module | None = None,
        gate: nn.Module | None = None,
    ) -> None:
        """hidden: channels in which maps and signal meet, width/2 and at least 1 unless given."""
        super().__init__()
        check_sizes(self, width=width, signal_width=signal_width)
        hidden = max(1, width // 2) if hidden is None else hidden
        check_sizes(self, hidden=hidden)
        check_parts(self, activation=activation, gate=gate)
        self.width, self.signal_width = width, signal_width
        self.from_maps = nn.Conv2d(width, hidden, 1, bias=False)  # W_x
        self.from_signal = nn.Conv2d(signal_width, hidden, 1)  # W_g, b_g
        self.score = nn.Conv2d(hidden, 1, 1)  # ψ, b_ψ
        self.activation = nn.ReLU() if activation is None else activation
        self.gate = nn.Sigmoid() if gate is None else gate

    def forward(self, maps: Tensor, signal: Tensor) -> Tensor:
        check_maps(self, maps, self.width, self.from_maps.weight)
        check_maps(self, signal, self.signal_width, self.from_signal.weight, "signal")
        fits = signal.shape[0] == maps.shape[0]
        expect(fits, "AttentionGate's signal", f"a batch of {maps.shape[0]}, as the maps", signal.shape[0])
        met = self.from_maps(resampled(maps, signal)) + self.from_signal(signal)  # (B, F, h_g, w_g)
        return maps * resampled(self.gate(self.score(self.activation(met))), maps)


def resampled(maps: Tensor, other: Tensor) -> Tensor:
    """Maps on the grid of the others; cells of both grids cover the same area."""
    size = other.shape[2:]
    return maps if maps.shape[2:] == size else functional.interpolate(maps, size, mode="bilinear", align_corners=False)
