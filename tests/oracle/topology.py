"""Soft skeletons and the losses of thin things, pixel by pixel, of one class: lists of rows, one for each image."""

CROSS = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
SQUARE = tuple((down, along) for down in (-1, 0, 1) for along in (-1, 0, 1))


def pooled(rows, offsets, choose):
    height, width = len(rows), len(rows[0])
    return [
        [
            choose(rows[y + a][x + b] for a, b in offsets if 0 <= y + a < height and 0 <= x + b < width)
            for x in range(width)
        ]
        for y in range(height)
    ]


def top_hat(rows):
    """What an opening takes away."""
    opened = pooled(pooled(rows, CROSS, min), SQUARE, max)
    return [[max(0.0, a - b) for a, b in zip(one, other, strict=True)] for one, other in zip(rows, opened, strict=True)]


def soft_skeleton(rows, iterations):
    found = top_hat(rows)
    for _ in range(iterations):
        rows = pooled(rows, CROSS, min)
        delta = top_hat(rows)
        found = [[s + (1 - s) * d for s, d in zip(a, b, strict=True)] for a, b in zip(found, delta, strict=True)]
    return found


def soft_cldice(p, y, iterations):
    """p and y: of each image, rows of probabilities and of 0 and 1."""
    found = [flat(soft_skeleton(one, iterations)) for one in p]
    there = [flat(soft_skeleton(one, iterations)) for one in y]
    precision = (product(found, map(flat, y)) + 1) / (sum(map(sum, found)) + 1)
    sensitivity = (product(there, map(flat, p)) + 1) / (sum(map(sum, there)) + 1)
    return 1 - 2 * precision * sensitivity / (precision + sensitivity)


def skeleton_recall(p, tubes):
    """p and tubes: of each image, rows of probabilities and of 0 and 1."""
    return 1 - product(map(flat, p), map(flat, tubes)) / sum(sum(flat(one)) for one in tubes)


def flat(rows):
    return [value for row in rows for value in row]


def product(one, other):
    return sum(a * b for left, right in zip(one, other, strict=True) for a, b in zip(left, right, strict=True))
