"""Windowed attention of one sample: each token gathers the tokens of its own window, and attends to them."""

import math

from oracle.multihead import linear, parts, softmax


def windowed(grid, q, k, v, out, heads, size, shift, bias=None):
    """grid (h, w, C); bias(head, down, right) is added to the score of a query that stands so far below and right of
    its key. → (h, w, C).
    """
    result = []
    for y, line in enumerate(grid):
        row = []
        for x, token in enumerate(line):
            row.append(one(grid, token, y, x, q, k, v, out, heads, size, shift, bias))
        result.append(row)
    return result


def one(grid, token, y, x, q, k, v, out, heads, size, shift, bias):
    mine = ((y - shift) // size, (x - shift) // size)
    inside = [
        (r, c)
        for r in range(len(grid))
        for c in range(len(grid[0]))
        if ((r - shift) // size, (c - shift) // size) == mine
    ]
    query = linear(token, *q)
    width = len(query) // heads
    joined = []
    for head in range(heads):
        part = slice(head * width, (head + 1) * width)
        scores, values = [], []
        for r, c in inside:
            key = linear(grid[r][c], *k)[part]
            score = sum(a * b for a, b in zip(query[part], key, strict=True)) / math.sqrt(width)
            scores.append(score + (0.0 if bias is None else bias(head, y - r, x - c)))
            values.append(linear(grid[r][c], *v)[part])
        weights = softmax(scores)
        for d in range(width):
            total = 0.0
            for weight, value in zip(weights, values, strict=True):
                total += weight * value[d]
            joined.append(total)
    return linear(joined, *out)


def like(module, grid):
    """The layer of the example, which has no bias on its scores."""
    assert module.attention.position is None
    sizes = module.attention.heads, module.window, module.shift
    return [windowed(sample, *parts(module.attention), *sizes) for sample in grid.tolist()]
