"""Squeeze-and-excitation of one sample: every channel is scaled by a gate that the means of all channels decide."""

import math

from oracle.multihead import linear


def squeeze_excitation(maps, reduce, widen):
    """maps (C, h, w); reduce and widen: pairs (weight, bias), one row of weight for each output → (C, h, w)."""
    means = [sum(sum(row) for row in channel) / (len(channel) * len(channel[0])) for channel in maps]
    hidden = [max(0.0, number) for number in linear(means, *reduce)]
    gates = [1 / (1 + math.exp(-number)) for number in linear(hidden, *widen)]
    return [[[gate * cell for cell in row] for row in channel] for gate, channel in zip(gates, maps, strict=True)]


def of_one(convolution):
    """Weight and bias of a 1×1 convolution as those of a linear map."""
    weight = [[cell[0][0] for cell in row] for row in convolution.weight.tolist()]
    return weight, convolution.bias.tolist()


def like(module, maps):
    return [squeeze_excitation(sample, of_one(module.reduce), of_one(module.widen)) for sample in maps.tolist()]
