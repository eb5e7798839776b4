"""CBAM of one sample: gates of the channels from their means and their largest, then gates of the places."""

from oracle import spatial as places
from oracle.maps import mean, of_one, sigmoid
from oracle.multihead import linear


def cbam(maps, reduce, widen, weight, bias):
    """maps (C, h, w); reduce and widen: pairs (weight, bias) of the shared MLP; weight and bias of the places."""
    return places.spatial(channels(maps, reduce, widen), weight, bias)


def channels(maps, reduce, widen):
    pools = [mean(channel) for channel in maps], [max(max(row) for row in channel) for channel in maps]
    one, other = (linear([max(0.0, number) for number in linear(pool, *reduce)], *widen) for pool in pools)
    gates = [sigmoid(a + b) for a, b in zip(one, other, strict=True)]
    return [[[gate * cell for cell in row] for row in channel] for gate, channel in zip(gates, maps, strict=True)]


def like(module, maps):
    mix = module.spatial.mix.weight.tolist(), module.spatial.mix.bias.tolist()
    mlp = of_one(module.channel.reduce), of_one(module.channel.widen)
    return [cbam(sample, *mlp, *mix) for sample in maps.tolist()]
