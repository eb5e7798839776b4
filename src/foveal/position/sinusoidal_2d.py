"""Sinusoidal positions on a grid: the first half of the channels encodes the row, the second half the column.

    PE(y, x) = [PE_{⌈C/2⌉}(y) ; PE_{⌊C/2⌋}(x)],   PE_c the sinusoidal position of width c

Paper: Niki Parmar, Ashish Vaswani, Jakob Uszkoreit, Łukasz Kaiser, Noam Shazeer, Alexander Ku, Dustin Tran (2018).
    Image transformer. ICML. arXiv:1802.05751.
Paper: Nicolas Carion, Francisco Massa, Gabriel Synnaeve, Nicolas Usunier, Alexander Kirillov, Sergey Zagoruyko (2020).
    End-to-end object detection with transformers. ECCV. arXiv:2005.12872.
Departs from the paper: coordinates count tokens from 0; the second paper's code counts from 1 and stretches them to
    2π. The first paper's columns also encode the colour, as it predicts pixels.
Cost: O(h·w·C); no parameters, any grid.
Example: Sinusoidal2d(14)(image)
"""

import torch
from torch import Tensor

from foveal.errors import expect, expect_integer
from foveal.position.position import Position, check_places
from foveal.position.sinusoidal import sinusoid


class Sinusoidal2d(Position):
    def __init__(self, width: int) -> None:
        super().__init__()
        expect_integer(width, "Sinusoidal2d's width", 2, "at least 2, for a row and a column")
        self.width = width

    def embed(self, x: Tensor, start: int = 0) -> Tensor:
        """A grid of tokens (B, h, w, C) with its positions added. A grid begins at its corner: start is 0."""
        check_places(self, x, f"a grid (B, h, w, {self.width})", self.width, start, "use Sinusoidal for (B, N, C)")
        expect(start == 0, "Sinusoidal2d's start", "0, the corner of the grid", start)
        wide = torch.promote_types(x.dtype, torch.float32)
        rows = torch.arange(x.shape[1], device=x.device).to(wide)
        columns = torch.arange(x.shape[2], device=x.device).to(wide)
        return x + sinusoid_2d(rows, columns, self.width).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.width}"


def sinusoid_2d(rows: Tensor, columns: Tensor, width: int) -> Tensor:
    """PE of the grid of these rows (h,) and columns (w,): (h, w, width)."""
    size = (rows.shape[0], columns.shape[0], -1)  # len() would be a constant of an exported graph
    by_row = sinusoid(rows, width - width // 2)[:, None].expand(size)
    by_column = sinusoid(columns, width // 2)[None].expand(size)
    return torch.cat((by_row, by_column), -1)
