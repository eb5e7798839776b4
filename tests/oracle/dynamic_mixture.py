"""A convolution of one sample whose kernel is a mixture of several, which the sample's channel means decide."""

from oracle.multihead import linear, softmax
from oracle.squeeze_excitation import of_one


def dynamic_mixture(maps, reduce, widen, weights, biases, temperature, stride=1, padding=0, dilation=1, groups=1):
    """maps (C, h, w); weights (K, O, C/groups, k, k), biases (K, O) → (O, h′, w′)."""
    means = [sum(sum(row) for row in channel) / (len(channel) * len(channel[0])) for channel in maps]
    hidden = [max(0.0, number) for number in linear(means, *reduce)]
    shares = softmax([number / temperature for number in linear(hidden, *widen)])
    return [
        convolved(
            maps,
            lambda c, y, x, o=o: sum(share * weights[k][o][c][y][x] for k, share in enumerate(shares)),
            sum(share * biases[k][o] for k, share in enumerate(shares)),
            (len(weights[0][0]), len(weights[0][0][0])),
            o * groups // len(weights[0]),
            stride,
            padding,
            dilation,
        )
        for o in range(len(weights[0]))
    ]


def convolved(maps, weight, bias, sizes, group, stride, padding, dilation):
    """One output channel, which reads the channels of its group; outside of a map there are zeros."""
    (width, side), h, w = sizes, len(maps[0]), len(maps[0][0])
    reach = dilation * (side - 1) + 1
    result = []
    for top in range(-padding, h + padding - reach + 1, stride):
        line = []
        for left in range(-padding, w + padding - reach + 1, stride):
            total = bias
            for c in range(width):
                for i in range(side):
                    for j in range(side):
                        y, x = top + i * dilation, left + j * dilation
                        if 0 <= y < h and 0 <= x < w:
                            total += weight(c, i, j) * maps[group * width + c][y][x]
            line.append(total)
        result.append(line)
    return result


def like(module, maps):
    biases = [[0.0] * module.out_width] * module.kernels if module.bias is None else module.bias.tolist()
    weights = of_one(module.reduce), of_one(module.widen), module.weight.tolist(), biases, module.temperature.item()
    sizes = module.stride, module.padding, module.dilation, module.groups
    return [dynamic_mixture(sample, *weights, *sizes) for sample in maps.tolist()]
