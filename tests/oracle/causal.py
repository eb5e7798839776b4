"""Query i looks at keys 0 … i."""


def causal(queries, keys):
    """→ (queries, keys) of bool."""
    kept = [[False] * keys for _ in range(queries)]
    for i in range(queries):
        for j in range(min(i + 1, keys)):
            kept[i][j] = True
    return kept
