"""Spatial attention of one sample: every place is scaled by a gate from the means and the largest around it."""

from oracle.maps import convolution, sigmoid


def spatial(maps, weight, bias):
    """maps (C, h, w); weight (1, 2, k, k): of the mean and of the largest → (C, h, w)."""
    h, w = len(maps[0]), len(maps[0][0])
    means = [[sum(channel[y][x] for channel in maps) / len(maps) for x in range(w)] for y in range(h)]
    largest = [[max(channel[y][x] for channel in maps) for x in range(w)] for y in range(h)]
    [scores] = convolution([means, largest], weight, bias, padding=len(weight[0][0]) // 2)
    return [[[sigmoid(scores[y][x]) * channel[y][x] for x in range(w)] for y in range(h)] for channel in maps]


def like(module, maps):
    return [spatial(sample, module.mix.weight.tolist(), module.mix.bias.tolist()) for sample in maps.tolist()]
