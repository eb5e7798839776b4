"""ICAM from the features of the patches to the logits, for one image, in plain loops.

Weights are pairs (weight, bias), one row for each output.
"""

import math

from oracle.attend import attend
from oracle.gated import gated
from oracle.learned_2d import learned_2d
from oracle.multihead import linear, multihead, pair, parts
from oracle.polar import polar
from oracle.residual import layer_norm, residual
from oracle.sinusoidal_2d import sinusoidal_2d


def icam(features, norm, embed, places, first, layers, out, head, heads, positioned):
    """features [row][column][channel]; places the same, as wide as the model; first(embed, memory, content, values) →
    queries; layers: (attention's four pairs, its LayerNorm, the gated network's three pairs, its LayerNorm) each;
    head: two pairs; positioned: whether the values know where they stand, as the keys do → logits.
    """
    content = [linear(layer_norm(cell, *norm), *embed) for line in features for cell in line]
    flat = [place for line in places for place in line]
    memory = [[a + b for a, b in zip(token, place, strict=True)] for token, place in zip(content, flat, strict=True)]
    values = memory if positioned else content
    queries = first(embed, memory, content, values)
    for attention, attention_norm, network, network_norm in layers:
        looked = multihead(queries, memory, *attention, heads, heads, source=values)
        queries = [
            residual(query, lambda _, y=y: y, "post", *attention_norm) for query, y in zip(queries, looked, strict=True)
        ]
        queries = [residual(query, lambda x: gated(x, *network), "post", *network_norm) for query in queries]
    told = [number for query in queries for number in linear(query, *out)]
    return linear([max(0.0, number) for number in linear(told, *head[0])], *head[1])


def static(latent):
    return lambda embed, memory, content, values: [linear(row, *embed) for row in latent]


def adaptive(latent):
    """Q⁰ = softmax(W_emb(Q_latent) Kᵀ/√C) V."""
    return lambda embed, memory, content, values: attend([linear(row, *embed) for row in latent], memory, values)


def projected(latent, q, k, v):
    """Q⁰ = softmax(W_q(Q_latent) (W_k K)ᵀ/√C) W_v X."""
    return lambda embed, memory, content, values: attend(
        [linear(row, *q) for row in latent], [linear(row, *k) for row in memory], [linear(row, *v) for row in content]
    )


def projected_static(latent, q):
    return lambda embed, memory, content, values: [linear(row, *q) for row in latent]


def mixer(grid, kernel, gain, offset, mean, variance, epsilon=1e-5):
    """grid [row][column][channel]; kernel [channel][3][3]: depthwise, nothing outside of the grid.

    Then BatchNorm as it was counted; then ReLU.
    """
    height, width = len(grid), len(grid[0])
    result = []
    for y in range(height):
        line = []
        for x in range(width):
            cell = []
            for channel in range(len(grid[0][0])):
                total = 0.0
                for i in range(3):
                    for j in range(3):
                        a, b = y + i - 1, x + j - 1
                        if 0 <= a < height and 0 <= b < width:
                            total += kernel[channel][i][j] * grid[a][b][channel]
                scaled = (total - mean[channel]) / math.sqrt(variance[channel] + epsilon)
                cell.append(max(0.0, scaled * gain[channel] + offset[channel]))
            line.append(cell)
        result.append(line)
    return result


def like(model, features):
    """features: one grid [row][column][channel] for each image, as Φ and the pooling made them → logits."""
    return [_one(model, grid) for grid in features]


def pooled(features, weight, bias, norm):
    """W BN[mean of the cells; maximum of the cells] + b. norm: scale, shift, mean, variance of each, and ε."""
    cells = [cell for line in features for cell in line]
    channels = list(zip(*cells, strict=True))
    seen = [sum(one) / len(one) for one in channels] + [max(one) for one in channels]
    *each, epsilon = norm
    normalised = [
        scale * (one - mean) / math.sqrt(variance + epsilon) + shift
        for one, scale, shift, mean, variance in zip(seen, *each, strict=True)
    ]
    return linear(normalised, weight, bias)


def _one(model, grid):
    config = model.config
    more = [0.0] * config.classes
    if config.pooled:
        norm = model.pooled.norm
        statistics = (norm.running_mean.tolist(), norm.running_var.tolist(), norm.eps)
        more = pooled(grid, *pair(model.pooled.linear), (*pair(norm), *statistics))
    if config.mixer:
        convolution, norm, _ = model.mixer
        kernel = [channel[0] for channel in convolution.weight.tolist()]
        grid = mixer(grid, kernel, *pair(norm), norm.running_mean.tolist(), norm.running_var.tolist())
    height, width = len(grid), len(grid[0])
    if config.position == "learned":
        table = model.position.table.tolist()
        places = table if (len(table), len(table[0])) == (height, width) else learned_2d(table, height, width)
    else:
        places = {"sinusoidal": sinusoidal_2d, "polar": polar}[config.position](height, width, config.width)
    first, latent = model.first, model.first.latent.tolist()
    start = {
        "static": lambda: static(latent),
        "adaptive": lambda: adaptive(latent),
        "projected": lambda: projected(latent, pair(first.q), pair(first.k), pair(first.v)),
        "projected-static": lambda: projected_static(latent, pair(first.q)),
    }[config.first]()
    head = pair(model.head[0]), pair(model.head[3])
    layers = [_layer(layer) for layer in model.layers]
    parts_of = grid, pair(model.norm), pair(model.embed), places, start, layers, pair(model.out), head
    told = icam(*parts_of, config.heads, config.value_position)
    return [a + b for a, b in zip(told, more, strict=True)]


def _layer(layer):
    network = layer.feed_forward.layer
    weight, bias = pair(network.inner)
    half = len(weight) // 2
    pairs = (weight[:half], bias[:half]), (weight[half:], bias[half:]), pair(network.outer)
    return parts(layer.attention.layer), pair(layer.attention.norm), pairs, pair(layer.feed_forward.norm)
