"""Query i looks at the keys from i − radius to i + radius."""


def local(radius, queries, keys):
    """→ (queries, keys) of bool."""
    kept = [[False] * keys for _ in range(queries)]
    for i in range(queries):
        for j in range(i - radius, i + radius + 1):
            if 0 <= j < keys:
                kept[i][j] = True
    return kept
