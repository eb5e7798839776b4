"""The Performer, in loops: multi-head attention around linear attention."""

from oracle.linear import linear
from oracle.multihead import linear as affine


def performer(query, memory, qkv, out, projection, heads, keeps=None):
    """query (N, C), memory (M, C).

    Qkv and out are pairs (weight, bias), qkv's rows those of q, k and v in this order. → (N, C).
    """
    width = len(query[0])
    q = [affine(row, qkv[0][:width], qkv[1][:width]) for row in query]
    k = [affine(row, qkv[0][width : 2 * width], qkv[1][width : 2 * width]) for row in memory]
    v = [affine(row, qkv[0][2 * width :], qkv[1][2 * width :]) for row in memory]
    parts = linear(*([split(rows, heads)] for rows in (q, k, v)), projection, keeps)[0]  # (H, N, D)
    joined = [[value for head in parts for value in head[i]] for i in range(len(query))]
    return [affine(row, *out) for row in joined]


def split(rows, heads):
    """(N, C) → (H, N, D)."""
    width = len(rows[0]) // heads
    return [[row[head * width : (head + 1) * width] for row in rows] for head in range(heads)]


def like(module, query, memory=None):
    pairs = [(part.weight.tolist(), part.bias.tolist()) for part in (module.qkv, module.out)]
    other = query if memory is None else memory
    samples = zip(query.tolist(), other.tolist(), strict=True)
    return [performer(one, two, *pairs, module.projection.tolist(), module.heads) for one, two in samples]
