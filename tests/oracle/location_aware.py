"""Chorowski's location-aware attention, in loops: the score, and one step of the layer around it."""

import math

from oracle.score import inner, pairs, product, softmax


def location_aware(state, memory, previous, w_state, bias, w_key, w_location, filters, v):
    """state (C,), memory (M, E), previous (M,) → y (E,) and the weights (M,) of one step of one sample."""
    seen = convolved(previous, filters)
    scores = [energy(state, column, seen[j], w_state, w_key, w_location, bias, v) for j, column in enumerate(memory)]
    weights = softmax(scores)
    return [inner(weights, column) for column in zip(*memory, strict=True)], weights


def convolved(previous, filters):
    """previous (M,), filters (R, T) → f (M, R); outside of the memory the weights are 0."""
    middle = len(filters[0]) // 2
    result = []
    for j in range(len(previous)):
        row = []
        for taps in filters:
            total = 0.0
            for tap, factor in enumerate(taps):
                at = j + tap - middle
                if 0 <= at < len(previous):
                    total += factor * previous[at]
            row.append(total)
        result.append(row)
    return result


def energy(state, column, place, w_state, w_key, w_location, bias, v):
    """wᵀ tanh(W s + V h + U f + b)."""
    parts = zip(product(w_state, state), product(w_key, column), product(w_location, place), bias, strict=True)
    return inner(v, [math.tanh(sum(part)) for part in parts])


def score(q, k, previous, w_query, w_key, w_location, filters, bias, v):
    """q (B, H, N, D), k (B, G, M, E), previous (B, H, N, M) → (B, H, N, M)."""
    result = []
    for sample, (heads, keys) in enumerate(zip(q, k, strict=True)):
        rows = []
        for head, queries in enumerate(heads):
            seen = [convolved(weights, filters) for weights in previous[sample][head]]  # (N, M, R)
            group = keys[head * len(keys) // len(heads)]
            one = pairs([[queries]], [[group]], _with(seen, w_query, w_key, w_location, bias, v))
            rows.append(one[0][0])
        result.append(rows)
    return result


def _with(seen, w_query, w_key, w_location, bias, v):
    return lambda row, column, i, j: energy(row, column, seen[i][j], w_query, w_key, w_location, bias, v)


def like(module, state, memory, previous):
    weights = (
        module.state.weight.tolist(),
        module.state.bias.tolist(),
        module.key.weight.tolist(),
        module.place.weight.tolist(),
        module.filters.tolist(),
        module.v.tolist(),
    )
    steps = [
        location_aware(*sample, *weights)
        for sample in zip(state.tolist(), memory.tolist(), previous.tolist(), strict=True)
    ]
    return [list(part) for part in zip(*steps, strict=True)]
