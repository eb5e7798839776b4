"""Relative positions (Shaw): a learned vector for each distance, which the query scores as it scores keys.

    e_ij = (q_i·k_j + q_i·R_{clip(i−j)})/√D;   clip(d) = max(−K, min(K, d)),   R ∈ R^{(2K+1) × D}

Symbols: K max_distance; row K + d of the table is R_d. One table serves all heads, as in the paper, unless heads says
    how many there are. `attend` scales q_i·k_j, the term scales itself.
Paper: Peter Shaw, Jakob Uszkoreit, Ashish Vaswani (2018). Self-attention with relative position representations.
    NAACL. arXiv:1803.02155.
Departs from the paper: the relative term on the values is left out, since no fused kernel has it; the paper's ablation
    scores the same without it. The distance is i − j where the paper writes j − i: the same table, read backwards.
Cost: O(N·(N + M)·D) time. A tile of n × m pairs takes n·(n + m) numbers a head, or n·m·D for all heads where its keys
    are scattered, whatever K is; FlexAttention and a compiled graph take N·(2K+1) a head. (2K+1)·D parameters for each
    table.
Example: Relative(8, max_distance=4).bias(q, keys=7)
"""

import math

import torch
from torch import nn

from foveal.core.relative import RelativeTerm
from foveal.core.term import Term
from foveal.errors import expect, expect_integer, is_number, short_repr
from foveal.position.biased import Biased, without_heads


class Relative(Biased):
    def __init__(self, width: int, max_distance: int, heads: int = 1, scale: float | None = None) -> None:
        super().__init__()
        expect_integer(width, "Relative's width", expected="at least 1, the channels of one head")
        expect_integer(max_distance, "Relative's max_distance", 0)
        expect_integer(heads, "Relative's heads", expected="at least 1; 1 is one table for all")
        expect(
            scale is None or (is_number(scale) and math.isfinite(scale)),
            "Relative's scale",
            "a finite number",
            short_repr(scale),
        )
        self.width, self.max_distance, self.heads = width, max_distance, heads
        self.scale = 1 / math.sqrt(width) if scale is None else scale
        self.table = nn.Parameter(nn.init.normal_(torch.empty(heads, 2 * max_distance + 1, width), std=width**-0.5))

    def term(self, query_start: int = 0) -> Term:
        return RelativeTerm(self.table, self.scale, query_start)

    def drop_heads(self, indices: list[int]) -> None:
        if self.heads > 1:  # one table for all stays as it is
            self.table, self.heads = without_heads(self.table, 0, indices)

    def extra_repr(self) -> str:
        return f"{self.width}, max_distance={self.max_distance}, heads={self.heads}, scale={self.scale:g}"
