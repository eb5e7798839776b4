"""Selective kernels: several branches see the map through different kernels, and each channel chooses among them.

    U_k = F_k(x);   s = mean_ij Σ_k U_k;   z = δ(BN(W s))
    a_k,c = softmax_k (A_k z)_c;   y_c = Σ_k a_k,c · U_k,c

Symbols: F_k the branches, K = 2 unless given: 3×3 and, with as many weights, 3×3 with a dilation of 2, which spans
    5×5, each in 32 groups with BN and ReLU; W takes C channels to squeeze; δ ReLU, BN a batch norm, unless given.
Paper: Xiang Li, Wenhai Wang, Xiaolin Hu, Jian Yang (2019). Selective kernel networks. CVPR. arXiv:1903.06586.
Departs from the paper: where 32 does not divide the channels, the groups are the greatest divisor of both.
Cost: that of the branches, by default 2·K·9·C²·h·w/32 operations; O(K·h·w·C) time and bytes to weigh them, K maps in
    memory; (1 + K)·C·squeeze parameters for the choice.
Example: SelectiveKernel(6, squeeze=4)(maps)
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from foveal.core.attend import weigh
from foveal.errors import FovealError, expect, short_repr
from foveal.layers.attention import check_sizes
from foveal.vision.maps import check_maps, check_parts

DILATIONS, GROUPS = (1, 2), 32


class SelectiveKernel(nn.Module):
    """Maps (B, width, h, w) → (B, width, h, w), of each channel the mean of the branches by its weights.

    Attention with a head for each channel, one query, and a branch as each key: `foveal.watch` sees its weights.
    """

    def __init__(
        self,
        width: int,
        *,
        branches: Sequence[nn.Module] | None = None,
        squeeze: int | None = None,
        norm: nn.Module | None = None,
        activation: nn.Module | None = None,
    ) -> None:
        """branches: what gives maps of `width` channels, all of one shape.

        squeeze: width/16 and at least 32 unless given; norm: of (B, squeeze, 1, 1).
        """
        super().__init__()
        check_sizes(self, width=width)
        squeeze = max(32, width // 16) if squeeze is None else squeeze
        check_sizes(self, squeeze=squeeze)
        check_parts(self, norm=norm, activation=activation)
        self.width, self.takes = width, width if branches is None else None
        self.branches = nn.ModuleList(branched(width) if branches is None else checked(branches))
        self.reduce = nn.Conv2d(width, squeeze, 1, bias=False)  # W
        self.norm = nn.BatchNorm2d(squeeze) if norm is None else norm
        self.activation = nn.ReLU() if activation is None else activation
        self.score = nn.Conv2d(squeeze, len(self.branches) * width, 1, bias=False)  # A, one after the other

    def forward(self, maps: Tensor) -> Tensor:
        check_maps(self, maps, self.takes, self.reduce.weight)
        if self.training and maps.shape[0] == 1 and isinstance(self.norm, nn.BatchNorm2d):
            raise FovealError(
                "SelectiveKernel's maps: expected at least 2 samples to train its batch norm, got 1; pass another norm="
            )
        seen = self._branched(maps)  # U, (B, C, K, h, w)
        fused = seen.sum(2).mean((2, 3), keepdim=True)  # s, (B, C, 1, 1)
        scores = self.score(self.activation(self.norm(self.reduce(fused))))  # (B, K·C, 1, 1)
        scores = scores.flatten(1).unflatten(1, (-1, self.width)).transpose(1, 2)[:, :, None]  # (B, C, 1, K)
        return weigh(scores, seen.flatten(3)).reshape(*seen.shape[:2], *seen.shape[3:])

    def _branched(self, maps: Tensor) -> Tensor:
        """What the branches give, side by side."""
        seen = [branch(maps) for branch in self.branches]
        for number, one in enumerate(seen):
            check_maps(self, one, self.width, name=f"branch {number}")
            fits = one.shape == seen[0].shape
            expect(
                fits, f"SelectiveKernel's branch {number}", f"{tuple(seen[0].shape)}, as the first", tuple(one.shape)
            )
        return torch.stack(seen, 2)


def branched(width: int) -> list[nn.Module]:
    """The paper's two branches."""
    groups = math.gcd(GROUPS, width)
    return [
        nn.Sequential(
            nn.Conv2d(width, width, 3, padding=dilation, dilation=dilation, groups=groups, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        )
        for dilation in DILATIONS
    ]


def checked(branches: Sequence[nn.Module]) -> Sequence[nn.Module]:
    fits = isinstance(branches, Sequence | nn.ModuleList) and len(branches) > 0
    fits = fits and all(isinstance(branch, nn.Module) for branch in branches)
    expect(fits, "SelectiveKernel's branches", "a list of modules, at least one", short_repr(branches))
    return branches
