"""A window, random keys, and global tokens."""

from oracle.longformer import longformer
from oracle.random import random


def bigbird(radius, count, n=1, seed=0, block=1, *, queries, keys):
    """→ (queries, keys) of bool."""
    fixed = longformer(radius, n, queries=queries, keys=keys)
    drawn = random(count, seed, block, queries=queries, keys=keys)
    return [[fixed[i][j] or drawn[i][j] for j in range(keys)] for i in range(queries)]
