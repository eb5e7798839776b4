"""Everybody looks at the first n keys."""


def prefix(n, queries, keys):
    """→ (queries, keys) of bool."""
    kept = [[False] * keys for _ in range(queries)]
    for i in range(queries):
        for j in range(min(n, keys)):
            kept[i][j] = True
    return kept
