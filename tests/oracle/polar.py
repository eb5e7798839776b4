"""Polar positions on a grid, in loops: the angle by cosine and side, not by atan2."""

import math

from oracle.position import added


def polar(height, width, channels):
    """A grid height × width → [row][column][channel]."""
    first = math.ceil(channels / 2)
    grid = []
    for y in range(height):
        line = []
        for x in range(width):
            up, right = (height - 1) / 2 - y, x - (width - 1) / 2
            radius = math.hypot(up, right)
            cell = []
            for channel in range(first):
                angle = radius / 10000 ** ((channel - channel % 2) / first)
                cell.append(math.sin(angle) if channel % 2 == 0 else math.cos(angle))
            for place in range(channels - first):
                if radius == 0:
                    cell.append(0.0)
                    continue
                clock = math.acos(max(-1.0, min(1.0, up / radius)))  # from 12 o'clock, 0 … π
                clock = clock if right >= 0 else 2 * math.pi - clock
                turn = place // 2 + 1
                cell.append(math.sin(turn * clock) if place % 2 == 0 else math.cos(turn * clock))
            line.append(cell)
        grid.append(line)
    return grid


def like(module, x):
    samples = x.tolist()
    grid = polar(len(samples[0]), len(samples[0][0]), module.width)
    return [[added(line, places) for line, places in zip(sample, grid, strict=True)] for sample in samples]
