"""What the oracles of modules on feature maps share: convolutions and their kin on one sample (C, h, w),
in plain loops.
"""

import math


def convolution(maps, weight, bias=None, padding=0, stride=1, dilation=1, groups=1):
    """weight (O, C/groups, k, k) as nn.Conv2d's; outside of the map there are zeros → (O, h′, w′)."""
    h, w, size = len(maps[0]), len(maps[0][0]), len(weight[0][0])
    reach, inputs = dilation * (size - 1), len(weight[0])
    result = []
    for o, kernel in enumerate(weight):
        first = o // (len(weight) // groups) * inputs
        rows = []
        for top in range(-padding, h + padding - reach, stride):
            row = []
            for left in range(-padding, w + padding - reach, stride):
                total = 0.0 if bias is None else bias[o]
                for c in range(inputs):
                    for i in range(size):
                        for j in range(size):
                            y, x = top + i * dilation, left + j * dilation
                            if 0 <= y < h and 0 <= x < w:
                                total += kernel[c][i][j] * maps[first + c][y][x]
                row.append(total)
            rows.append(row)
        result.append(rows)
    return result


def normed(number, norm, channel):
    """What a batch norm does in evaluation to a number of a channel; norm as from `normal`."""
    spread = math.sqrt(norm["variance"][channel] + norm["eps"])
    return (number - norm["mean"][channel]) / spread * norm["gain"][channel] + norm["offset"][channel]


def normal(norm):
    """The numbers of an nn.BatchNorm2d."""
    return {
        "mean": norm.running_mean.tolist(),
        "variance": norm.running_var.tolist(),
        "gain": norm.weight.tolist(),
        "offset": norm.bias.tolist(),
        "eps": norm.eps,
    }


def bilinear(grid, h, w):
    """A grid (h′, w′) between whose cells lines are drawn → (h, w); cells are squares that cover the same map."""
    columns = [line(row, w) for row in grid]
    return [list(row) for row in zip(*(line(column, h) for column in zip(*columns, strict=True)), strict=True)]


def line(values, length):
    """Values at the middles of equal cells → values at the middles of `length` equal cells, constant at both ends."""
    result = []
    for place in range(length):
        source = max(0.0, (place + 0.5) * len(values) / length - 0.5)
        left = min(int(source), len(values) - 1)
        right, part = min(left + 1, len(values) - 1), source - left
        result.append(values[left] * (1 - part) + values[right] * part)
    return result


def sigmoid(number):
    return 1 / (1 + math.exp(-number))


def mean(channel):
    """The mean of a map (h, w)."""
    return sum(sum(row) for row in channel) / (len(channel) * len(channel[0]))


def of_one(convolution):
    """Weight and bias of a 1×1 convolution as those of a linear map."""
    weight = [[cell[0][0] for cell in row] for row in convolution.weight.tolist()]
    return weight, None if convolution.bias is None else convolution.bias.tolist()
