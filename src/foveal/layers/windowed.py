"""Windowed attention: a grid of tokens is cut into square windows, and a token looks inside its own; shifted windows
join neighbours.

    y = MultiHead(x) inside each window;   window(r, c) = (⌊(r − shift)/size⌋, ⌊(c − shift)/size⌋)

Symbols: r and c row and column of a token, size the side of a window. A position (a table of relative biases) works on
    the size² tokens of a window, row by row.
Paper: Ze Liu, Yutong Lin, Yue Cao, Han Hu, Yixuan Wei, Zheng Zhang, Stephen Lin, Baining Guo (2021). Swin transformer:
    hierarchical vision transformer using shifted windows. ICCV. arXiv:2103.14030.
Departs from the paper: where the windows do not divide the grid, the filler is hidden; the paper's code lets tokens
    look at it, as they do here if the grid is filled up before (models/swin.py).
Cost: O(h·w·(C² + size²·C)) time: linear in the number of tokens.
Example: Windowed(14, 2, window=3, shift=1)(image)
"""

import torch
from torch import Tensor, nn

from foveal.errors import expect, expect_integer
from foveal.layers.attention import check_grid, filled_up
from foveal.layers.multihead import MultiHead
from foveal.position.position import Position


class Windowed(nn.Module):
    """Multi-head attention inside the windows of a grid (B, h, w, C)."""

    def __init__(
        self,
        width: int,
        heads: int,
        window: int,
        shift: int = 0,
        position: Position | None = None,
        *,
        head_width: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        """head_width: C/heads unless given."""
        super().__init__()
        expect_integer(window, "Windowed's window")
        _check_shift(shift, window)
        self.width, self.window, self.shift = width, window, shift
        self.attention = MultiHead(width, heads, head_width=head_width, position=position, dropout=dropout, bias=bias)

    def forward(self, grid: Tensor, *, shift: int | None = None, kernel: str = "auto") -> Tensor:
        """(B, h, w, C) → (B, h, w, C). shift: the layer's own unless given; 0 for a grid that is a single window."""
        check_grid(self, grid, self.width)
        shift = self.shift if shift is None else shift
        _check_shift(shift, self.window)
        batch, h, w, _ = grid.shape
        x = filled_up(grid, self.window)  # (B, h′, w′, C), whole windows
        rows, columns = x.shape[1], x.shape[2]
        windows = self._cut(x, shift)  # (B·windows, size², C)
        mask = None
        if shift or (rows, columns) != (h, w):
            mask = self._mask(h, w, rows, columns, shift, grid.device).repeat(batch, 1, 1, 1)
        y = self._joined(self.attention(windows, mask=mask, kernel=kernel), rows, columns, shift)
        return y[:, :h, :w]

    def drop_heads(self, indices: list[int]) -> None:
        """Cut these heads out, in place."""
        self.attention.drop_heads(indices)

    def _cut(self, x: Tensor, shift: int) -> Tensor:
        """(B, h′, w′, C) → (B·windows, size², C).

        Rolled by the shift, the windows that the border cuts share one, and the mask parts them.
        """
        size = self.window
        x = x.roll((-shift, -shift), (1, 2)) if shift else x
        batch, rows, columns, width = x.shape
        x = x.reshape(batch, rows // size, size, columns // size, size, width).transpose(2, 3)
        return x.reshape(-1, size * size, width)

    def _joined(self, windows: Tensor, rows: int, columns: int, shift: int) -> Tensor:
        """`_cut` undone."""
        size = self.window
        x = windows.view(-1, rows // size, columns // size, size, size, windows.shape[-1])
        x = x.transpose(2, 3).reshape(-1, rows, columns, windows.shape[-1])
        return x.roll((shift, shift), (1, 2)) if shift else x

    def _mask(self, h: int, w: int, rows: int, columns: int, shift: int, device: torch.device) -> Tensor:
        """For each window, which of its tokens see which: (windows, 1, size², size²).

        It is `foveal.mask.window` at the tokens' places. What shares a window only because it was rolled around the
        border lies on two sides of it: comparing sides is cheaper than dividing each pair's places by the window.
        """
        row = torch.arange(rows, device=device)[:, None]
        column = torch.arange(columns, device=device)
        side = 2 * (row >= rows - shift) + (column >= columns - shift)  # (h′, w′), of the rolled grid
        at = self._cut(side[None, :, :, None], 0)[..., 0]  # (windows, size²)
        kept = at[:, :, None] == at[:, None, :]
        if (rows, columns) != (h, w):
            real = ((row + shift) % rows < h) & ((column + shift) % columns < w)  # not filler
            kept = kept & self._cut(real[None, :, :, None], 0)[..., 0][:, None]
        return kept[:, None]


def _check_shift(shift: int, window: int) -> None:
    wanted = f"at least 0 and below the window {window}"
    expect_integer(shift, "Windowed's shift", 0, wanted)
    expect(shift < window, "Windowed's shift", wanted, shift)
