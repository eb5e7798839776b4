"""Two-way attention of one sample: each source asks the other."""

from oracle.multihead import multihead


def two_way(a, b, a_asks, b_asks, heads, a_keeps=None, b_keeps=None):
    """a (N, C), b (M, C′); a_asks and b_asks are (q, k, v, out), each (weight, bias) → (N, C), (M, C′)."""
    return (
        multihead(a, b, *a_asks, heads, heads, a_keeps),
        multihead(b, a, *b_asks, heads, heads, b_keeps),
    )
