"""The first n tokens look at everybody, and everybody looks at them."""


def to_global(n, queries, keys):
    """→ (queries, keys) of bool."""
    kept = [[False] * keys for _ in range(queries)]
    for token in range(n):
        if token < queries:
            kept[token] = [True] * keys
        if token < keys:
            for i in range(queries):
                kept[i][token] = True
    return kept
