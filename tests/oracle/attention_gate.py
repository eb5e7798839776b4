"""The attention gate of one sample: a gate of each place of a map, made on the coarser grid of a signal."""

from oracle.maps import bilinear, of_one, sigmoid
from oracle.multihead import linear


def attention_gate(maps, signal, from_maps, from_signal, score):
    """maps (C, h, w), signal (G, h_g, w_g); the others are pairs (weight, bias or None) → (C, h, w)."""
    h, w, rows, columns = len(maps[0]), len(maps[0][0]), len(signal[0]), len(signal[0][0])
    coarse = [bilinear(channel, rows, columns) for channel in maps]
    gates = []
    for i in range(rows):
        gates.append([])
        for j in range(columns):
            one = linear([channel[i][j] for channel in coarse], *from_maps)
            other = linear([channel[i][j] for channel in signal], *from_signal)
            [number] = linear([max(0.0, a + b) for a, b in zip(one, other, strict=True)], *score)
            gates[-1].append(sigmoid(number))
    fine = bilinear(gates, h, w)
    return [[[channel[i][j] * fine[i][j] for j in range(w)] for i in range(h)] for channel in maps]


def like(module, maps, signal):
    parts = of_one(module.from_maps), of_one(module.from_signal), of_one(module.score)
    return [attention_gate(*pair, *parts) for pair in zip(maps.tolist(), signal.tolist(), strict=True)]
