"""Sinusoidal positions on a grid, in loops."""

import math

from oracle.position import added


def sinusoidal_2d(height, width, channels):
    """A grid height × width → [row][column][channel]."""
    first = math.ceil(channels / 2)
    grid = []
    for y in range(height):
        line = []
        for x in range(width):
            cell = []
            for channel in range(channels):
                position, place, half = (
                    (y, channel, first) if channel < first else (x, channel - first, channels - first)
                )
                angle = position / 10000 ** ((place - place % 2) / half)
                cell.append(math.sin(angle) if place % 2 == 0 else math.cos(angle))
            line.append(cell)
        grid.append(line)
    return grid


def like(module, x):
    samples = x.tolist()
    grid = sinusoidal_2d(len(samples[0]), len(samples[0][0]), module.width)
    return [[added(line, places) for line, places in zip(sample, grid, strict=True)] for sample in samples]
