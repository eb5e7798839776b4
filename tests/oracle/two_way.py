"""Two-way attention of one sample: each source asks the other."""

from oracle.multihead import multihead, parts


def two_way(a, b, a_asks, b_asks, heads, a_keeps=None, b_keeps=None):
    """a (N, C), b (M, C′); a_asks and b_asks are (q, k, v, out), each (weight, bias) → (N, C), (M, C′)."""
    return (
        multihead(a, b, *a_asks, heads, heads, a_keeps),
        multihead(b, a, *b_asks, heads, heads, b_keeps),
    )


def like(module, a, b):
    weights = parts(module.a_asks), parts(module.b_asks), module.heads
    both = [two_way(*sample, *weights) for sample in zip(a.tolist(), b.tolist(), strict=True)]
    return [list(side) for side in zip(*both, strict=True)]
