"""Sinusoidal positions, in loops."""

import math

from oracle.position import added


def sinusoidal(positions, width):
    """positions: N numbers → N lists of width numbers."""
    table = []
    for position in positions:
        row = []
        for channel in range(width):
            pair = channel - channel % 2  # 2i
            angle = position / 10000 ** (pair / width)
            row.append(math.sin(angle) if channel % 2 == 0 else math.cos(angle))
        table.append(row)
    return table


def like(module, x):
    samples = x.tolist()
    places = sinusoidal(range(len(samples[0])), module.width)
    return [added(sample, places) for sample in samples]
