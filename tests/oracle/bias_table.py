"""Swin's relative bias, in loops."""


def bias_table(table, height, width):
    """table: [(2h−1)(2w−1)][head] → [head][i][j] for the tokens of a window, row by row."""
    cells = [(y, x) for y in range(height) for x in range(width)]
    bias = []
    for head in range(len(table[0])):
        scores = []
        for y, x in cells:
            line = []
            for other_y, other_x in cells:
                down, right = y - other_y + height - 1, x - other_x + width - 1
                line.append(table[down * (2 * width - 1) + right][head])
            scores.append(line)
        bias.append(scores)
    return bias


def like(module, q, keys):
    """The term of as many queries and keys, for all samples at once: (1, H, N, M)."""
    queries = len(q.tolist()[0][0])
    bias = bias_table(module.table.tolist(), module.height, module.width)
    return [[[row[:keys] for row in head[:queries]] for head in bias]]
