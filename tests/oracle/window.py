"""Shifted windows on a grid: cut the rows and the columns at shift, shift + size, ….

The tokens of one window look at each other.
"""

from itertools import pairwise


def window(h, w, queries, keys, shift=0, size=7):
    """→ (queries, keys) of bool, queries = keys = h·w tokens, row by row."""
    assert queries == keys == h * w
    kept = [[False] * keys for _ in range(queries)]
    for top, bottom in pieces(h, shift, size):
        for left, right in pieces(w, shift, size):
            inside = [y * w + x for y in range(top, bottom) for x in range(left, right)]
            for i in inside:
                for j in inside:
                    kept[i][j] = True
    return kept


def pieces(length, shift, size):
    """[(start, stop), …]: a first piece of `shift`, then pieces of `size`, the last as long as is left."""
    cuts = [0, *range(shift or size, length, size), length]
    return list(pairwise(cuts))
