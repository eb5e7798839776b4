"""Squeeze-and-excitation of one sample: every channel is scaled by a gate that the means of all channels decide."""

from oracle.maps import mean, of_one, sigmoid
from oracle.multihead import linear


def squeeze_excitation(maps, reduce, widen):
    """maps (C, h, w); reduce and widen: pairs (weight, bias), one row of weight for each output → (C, h, w)."""
    hidden = [max(0.0, number) for number in linear([mean(channel) for channel in maps], *reduce)]
    gates = [sigmoid(number) for number in linear(hidden, *widen)]
    return [[[gate * cell for cell in row] for row in channel] for gate, channel in zip(gates, maps, strict=True)]


def like(module, maps):
    return [squeeze_excitation(sample, of_one(module.reduce), of_one(module.widen)) for sample in maps.tolist()]
