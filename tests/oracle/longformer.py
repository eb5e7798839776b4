"""A window, and global tokens."""

from oracle.local import local
from oracle.to_global import to_global


def longformer(radius, n=1, *, queries, keys):
    """→ (queries, keys) of bool."""
    near, everywhere = local(radius, queries, keys), to_global(n, queries, keys)
    return [[near[i][j] or everywhere[i][j] for j in range(keys)] for i in range(queries)]
