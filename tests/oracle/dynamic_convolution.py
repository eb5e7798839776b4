"""Dynamic convolution over tokens, in loops."""

import math

from oracle.multihead import linear as affine
from oracle.score import product, softmax


def dynamic_convolution(x, gate, kernel, out, heads, taps, ahead, kept=None):
    """x (N, C); gate and out are pairs (weight, bias), kernel (heads·taps, C).

    Kept (N,) says which tokens are real. → (N, C).
    """
    width = len(x[0])
    gated = []
    for row in x:
        both = affine(row, *gate)
        gated.append([a / (1 + math.exp(-b)) for a, b in zip(both[:width], both[width:], strict=True)])
    result = []
    for i, row in enumerate(gated):
        scores = product(kernel, row)
        joined = []
        for channel in range(width):
            head = channel * heads // width
            weights = softmax(scores[head * taps : (head + 1) * taps])
            total = 0.0
            for tap in range(taps):
                at = i + ahead - (taps - 1) + tap
                if 0 <= at < len(x) and (kept is None or kept[at]):
                    total += weights[tap] * gated[at][channel]
            joined.append(total)
        result.append(affine(joined, *out))
    return result


def like(module, x):
    gate, out = ((part.weight.tolist(), part.bias.tolist()) for part in (module.gate, module.out))
    sizes = module.heads, module.kernel_size, module.ahead
    return [dynamic_convolution(sample, gate, module.kernel.weight.tolist(), out, *sizes) for sample in x.tolist()]
