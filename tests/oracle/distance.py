"""Distances from every pixel to every marked one."""

import math


def distances(rows):
    marked = [(y, x) for y, row in enumerate(rows) for x, value in enumerate(row) if value]
    return [
        [min((math.hypot(y - a, x - b) for a, b in marked), default=math.inf) for x in range(len(row))]
        for y, row in enumerate(rows)
    ]
