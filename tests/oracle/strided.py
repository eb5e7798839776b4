"""Query i looks at itself and at every step-th key to both sides."""


def strided(step, queries, keys):
    """→ (queries, keys) of bool."""
    kept = [[False] * keys for _ in range(queries)]
    for i in range(queries):
        for start, way in ((i, -step), (i + step, step)):  # walk to the left, then to the right
            j = start
            while (j >= 0) if way < 0 else (j < keys):
                if j < keys:
                    kept[i][j] = True
                j += way
    return kept
