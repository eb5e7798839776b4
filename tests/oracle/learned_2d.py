"""Bicubic interpolation of a learned grid, in loops, with the kernel of slope −0.75."""

import math

from oracle.position import added

SLOPE = -0.75


def kernel(distance):
    distance = abs(distance)
    if distance <= 1:
        return (SLOPE + 2) * distance**3 - (SLOPE + 3) * distance**2 + 1
    if distance < 2:
        return SLOPE * distance**3 - 5 * SLOPE * distance**2 + 8 * SLOPE * distance - 4 * SLOPE
    return 0.0


def learned_2d(table, height, width):
    """table: [row][column][channel] → the same, height × width; outside of the table its border goes on."""
    rows, columns, channels = len(table), len(table[0]), len(table[0][0])
    grid = []
    for y in range(height):
        line = []
        for x in range(width):
            down, right = (y + 0.5) * rows / height - 0.5, (x + 0.5) * columns / width - 0.5
            cell = [0.0] * channels
            for a in range(math.floor(down) - 1, math.floor(down) + 3):
                for b in range(math.floor(right) - 1, math.floor(right) + 3):
                    weight = kernel(down - a) * kernel(right - b)
                    source = table[min(max(a, 0), rows - 1)][min(max(b, 0), columns - 1)]
                    for c in range(channels):
                        cell[c] += weight * source[c]
            line.append(cell)
        grid.append(line)
    return grid


def like(module, x):
    samples = x.tolist()
    grid = learned_2d(module.table.tolist(), len(samples[0]), len(samples[0][0]))
    return [[added(line, places) for line, places in zip(sample, grid, strict=True)] for sample in samples]
