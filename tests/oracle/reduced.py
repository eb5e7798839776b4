"""Spatial-reduction attention of one sample: the memory is a convolution of R × R blocks, then LayerNorm."""

from oracle.multihead import multihead, pair, parts
from oracle.residual import layer_norm


def reduced(grid, q, k, v, out, heads, reduction, kernel=None, kernel_bias=None, gain=None, offset=None):
    """grid (h, w, C), kernel (C, C, R, R) as nn.Conv2d's; outside of the grid there are zeros. → (h, w, C)."""
    h, w, width = len(grid), len(grid[0]), len(grid[0][0])
    tokens = [token for line in grid for token in line]
    memory = tokens
    if reduction > 1:
        memory = []
        for top in range(0, h, reduction):
            for left in range(0, w, reduction):
                cell = []
                for o in range(width):
                    total = kernel_bias[o]
                    for y in range(top, min(top + reduction, h)):
                        for x in range(left, min(left + reduction, w)):
                            for c in range(width):
                                total += kernel[o][c][y - top][x - left] * grid[y][x][c]
                    cell.append(total)
                memory.append(layer_norm(cell, gain, offset))
    flat = multihead(tokens, memory, q, k, v, out, heads, heads)
    return [flat[y * w : (y + 1) * w] for y in range(h)]


def like(module, grid):
    sizes, coarse = (module.attention.heads, module.reduction), (*pair(module.reduce), *pair(module.norm))
    return [reduced(sample, *parts(module.attention), *sizes, *coarse) for sample in grid.tolist()]
