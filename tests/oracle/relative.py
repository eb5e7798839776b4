"""Shaw's relative term, in loops."""


def relative(q, table, rows, columns, scale):
    """q: n lists of D numbers, table: 2K+1 lists of D, rows: n positions, columns:
    m positions → n lists of m numbers.
    """
    reach = (len(table) - 1) // 2
    scores = []
    for i, query in zip(rows, q, strict=True):
        line = []
        for j in columns:
            distance = max(-reach, min(reach, i - j))
            vector = table[reach + distance]
            line.append(scale * sum(a * b for a, b in zip(query, vector, strict=True)))
        scores.append(line)
    return scores


def like(module, q, keys):
    """(B, H, N, M)."""
    tables = module.table.tolist()  # one for all heads, or one for each
    result = []
    for heads in q.tolist():
        own = tables if len(tables) > 1 else tables * len(heads)
        scores = [
            relative(rows, table, range(len(rows)), range(keys), module.scale)
            for rows, table in zip(heads, own, strict=True)
        ]
        result.append(scores)
    return result
