"""Coordinate attention: pooled along one side at a time, so that the gates know where in a row and where in a column.

    z^h_c(i) = mean_j x_c(i, j);   z^w_c(j) = mean_i x_c(i, j);   [f^h ; f^w] = δ(BN(F₁([z^h ; z^w])))
    g^h = σ(F_h(f^h));   g^w = σ(F_w(f^w));   y_c(i, j) = x_c(i, j) · g^h_c(i) · g^w_c(j)

Symbols: F₁ takes C channels to C/32 and at least 8, F_h and F_w take them back, all 1×1; BN a batch norm, δ
    hard-swish, σ a sigmoid, unless given.
Paper: Qibin Hou, Daquan Zhou, Jiashi Feng (2021). Coordinate attention for efficient mobile network design. CVPR.
    arXiv:2103.02907.
Departs from the paper: nothing; what it leaves open (δ, the least squeeze, biases) is as in the authors' code.
Cost: O(h·w·C) time to read and to scale the map, 4·C·squeeze·(h + w) operations for the gates; 3·C·squeeze parameters.
Example: CoordinateAttention(6, squeeze=4)(maps)
"""

import torch
from torch import Tensor, nn

from foveal.layers.attention import check_sizes
from foveal.vision.maps import check_maps, check_parts


class CoordinateAttention(nn.Module):
    """Maps (B, width, h, w) → the same shape, each channel scaled by a gate of the row and one of the column."""

    def __init__(
        self,
        width: int,
        *,
        squeeze: int | None = None,
        norm: nn.Module | None = None,
        activation: nn.Module | None = None,
        gate: nn.Module | None = None,
    ) -> None:
        """squeeze: channels that rows and columns share, width/32 and at least 8 unless given.

        norm: of (B, squeeze, n, 1).
        """
        super().__init__()
        check_sizes(self, width=width)
        squeeze = max(8, width // 32) if squeeze is None else squeeze
        check_sizes(self, squeeze=squeeze)
        check_parts(self, norm=norm, activation=activation, gate=gate)
        self.width = width
        self.reduce = nn.Conv2d(width, squeeze, 1)  # F₁
        self.norm = nn.BatchNorm2d(squeeze) if norm is None else norm
        self.activation = nn.Hardswish() if activation is None else activation
        self.by_row, self.by_column = nn.Conv2d(squeeze, width, 1), nn.Conv2d(squeeze, width, 1)  # F_h, F_w
        self.gate = nn.Sigmoid() if gate is None else gate

    def forward(self, maps: Tensor) -> Tensor:
        check_maps(self, maps, self.width, self.reduce.weight)
        rows, columns = maps.mean(3, keepdim=True), maps.mean(2)[..., None]  # z^h (B, C, h, 1), z^w (B, C, w, 1)
        joined = self.activation(self.norm(self.reduce(torch.cat([rows, columns], 2))))  # f, (B, squeeze, h + w, 1)
        by_row = self.gate(self.by_row(joined[:, :, : maps.shape[2]]))  # g^h, (B, C, h, 1)
        by_column = self.gate(self.by_column(joined[:, :, maps.shape[2] :])).transpose(2, 3)  # g^w, (B, C, 1, w)
        return maps * by_row * by_column  # type: ignore[no-any-return]
