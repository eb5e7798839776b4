"""Selective kernels of one sample: each channel is a mean of what the branches give, by weights of its own."""

from oracle.maps import convolution, mean, normal, normed, of_one
from oracle.multihead import linear, softmax


def selective_kernel(maps, branches, reduce, norm, score):
    """maps (C, h, w); branches: triples (weight, dilation, norm); reduce (squeeze, C).

    Score (K·C, squeeze) → (C, h, w).
    """
    seen = [branch(maps, *parts) for parts in branches]
    h, w, width = len(seen[0][0]), len(seen[0][0][0]), len(seen[0])
    fused = [sum(mean(one[c]) for one in seen) for c in range(width)]
    hidden = [max(0.0, normed(number, norm, place)) for place, number in enumerate(linear(fused, reduce, None))]
    scores = linear(hidden, score, None)
    result = []
    for c in range(width):
        weights = softmax([scores[k * width + c] for k in range(len(seen))])
        result.append(
            [[sum(a * one[c][y][x] for a, one in zip(weights, seen, strict=True)) for x in range(w)] for y in range(h)]
        )
    return result


def branch(maps, weight, dilation, norm):
    """A 3×3 convolution, its batch norm and ReLU."""
    groups = len(maps) // len(weight[0])
    seen = convolution(maps, weight, padding=dilation, dilation=dilation, groups=groups)
    return [[[max(0.0, normed(cell, norm, c)) for cell in row] for row in one] for c, one in enumerate(seen)]


def like(module, maps):
    branches = [(one[0].weight.tolist(), one[0].dilation[0], normal(one[1])) for one in module.branches]
    parts = branches, of_one(module.reduce)[0], normal(module.norm), of_one(module.score)[0]
    return [selective_kernel(sample, *parts) for sample in maps.tolist()]
