"""Shaw's relative term, in loops."""


def relative(q, table, rows, columns, scale):
    """q: n lists of D numbers, table: 2K+1 lists of D, rows: n positions, columns: m positions → n lists of m numbers."""
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
