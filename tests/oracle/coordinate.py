"""Coordinate attention of one sample: a gate of each row and one of each column, for every channel."""

from oracle.maps import normal, normed, of_one, sigmoid
from oracle.multihead import linear


def coordinate(maps, reduce, norm, by_row, by_column):
    """maps (C, h, w); reduce, by_row, by_column: pairs (weight, bias).

    norm: the numbers of a batch norm → (C, h, w).
    """
    h, w = len(maps[0]), len(maps[0][0])
    rows = [[sum(channel[i]) / w for channel in maps] for i in range(h)]
    columns = [[sum(channel[i][j] for i in range(h)) / h for channel in maps] for j in range(w)]

    def gates(means, widen):
        """A list of (C,) → gates, a list of (C,)."""
        result = []
        for one in means:
            hidden = [normed(number, norm, channel) for channel, number in enumerate(linear(one, *reduce))]
            swished = [number * min(6.0, max(0.0, number + 3)) / 6 for number in hidden]
            result.append([sigmoid(number) for number in linear(swished, *widen)])
        return result

    down, right = gates(rows, by_row), gates(columns, by_column)
    return [[[maps[c][i][j] * down[i][c] * right[j][c] for j in range(w)] for i in range(h)] for c in range(len(maps))]


def like(module, maps):
    parts = of_one(module.reduce), normal(module.norm), of_one(module.by_row), of_one(module.by_column)
    return [coordinate(sample, *parts) for sample in maps.tolist()]
