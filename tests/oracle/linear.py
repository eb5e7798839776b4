"""Linear attention with positive random features, in loops, as its definition reads: no stabilising factor."""

import math

from oracle.score import inner


def linear(q, k, v, projection, keeps=None):
    """q (B, H, N, D), k (B, H, M, D), v (B, H, M, E), ω (F, D) → (B, H, N, E).

    Keeps(b, i, j) says whether i may look at j.
    """
    result = []
    for b, heads in enumerate(zip(q, k, v, strict=True)):
        result.append([_head(*head, projection, b, keeps) for head in zip(*heads, strict=True)])
    return result


def features(x, projection):
    """φ(x): (D,) → (F,)."""
    root = len(x) ** 0.25
    x = [value / root for value in x]
    half = inner(x, x) / 2
    return [math.exp(inner(omega, x) - half) / math.sqrt(len(projection)) for omega in projection]


def weights(q, k, projection, b=0, keeps=None):
    """q (N, D), k (M, D) → α (N, M); a row that may look at nothing is 0."""
    result = []
    for i, row in enumerate(q):
        phi = features(row, projection)
        parts = [
            inner(phi, features(key, projection)) if keeps is None or keeps(b, i, j) else 0.0 for j, key in enumerate(k)
        ]
        total = sum(parts)
        result.append([part / total if total else 0.0 for part in parts])
    return result


def _head(q, k, v, projection, b, keeps):
    columns = list(zip(*v, strict=True))
    return [[inner(row, column) for column in columns] for row in weights(q, k, projection, b, keeps)]
