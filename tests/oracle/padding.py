"""In sample b everybody looks at the first lengths[b] keys."""


def padding(lengths, queries, keys):
    """→ (samples, queries, keys) of bool."""
    kept = []
    for length in lengths:
        real = [True] * min(length, keys)
        kept.append([real + [False] * (keys - len(real)) for _ in range(queries)])
    return kept
