"""The Linformer, in loops."""

import math

from oracle.multihead import linear as affine
from oracle.performer import split
from oracle.score import inner, mean


def linformer(x, qkv, out, e, f, heads, kept=None):
    """x (N, C); qkv and out are pairs (weight, bias); E and F (projected, at least N).

    Kept (N,) says which tokens are real. → (N, C).
    """
    width = len(x[0])
    q, k, v = ([affine(row, qkv[0][s : s + width], qkv[1][s : s + width]) for row in x] for s in (0, width, 2 * width))
    if kept is not None:
        k = [row if real else [0.0] * width for row, real in zip(k, kept, strict=True)]
        v = [row if real else [0.0] * width for row, real in zip(v, kept, strict=True)]
    joined = [[] for _ in x]
    for rows, keys, values in zip(split(q, heads), split(k, heads), split(v, heads), strict=True):
        keys, values = mixed(e, keys), mixed(f, values)  # (projected, D)
        scores = [[inner(row, key) / math.sqrt(len(row)) for key in keys] for row in rows]
        for i, row in enumerate(mean(scores, values)):
            joined[i] += row
    return [affine(row, *out) for row in joined]


def mixed(matrix, rows):
    """matrix (projected, length), rows (N, D) → (projected, D), by the first N columns."""
    columns = list(zip(*rows, strict=True))
    return [[inner(line[: len(rows)], column) for column in columns] for line in matrix]


def like(module, x):
    pairs = [(part.weight.tolist(), part.bias.tolist()) for part in (module.qkv, module.out)]
    return [linformer(sample, *pairs, module.e.tolist(), module.f.tolist(), module.heads) for sample in x.tolist()]
