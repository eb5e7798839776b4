"""Where labels meet, pixel by pixel. labels[y][x], 255 unlabelled."""

import math


def edges(labels, radius):
    """1 at most `radius` from a pixel with a neighbour of another label, 0 elsewhere, 255 where nothing is labelled."""
    height, width = len(labels), len(labels[0])
    at = []
    for y in range(height):
        for x in range(width):
            for a, b in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                inside = 0 <= a < height and 0 <= b < width
                if inside and 255 not in (labels[y][x], labels[a][b]) and labels[y][x] != labels[a][b]:
                    at.append((y, x))
    return [
        [
            255 if labels[y][x] == 255 else int(any(math.hypot(y - a, x - b) <= radius for a, b in at))
            for x in range(width)
        ]
        for y in range(height)
    ]


def edge_cross_entropy(logits, wanted):
    """logits and wanted: [b][y][x]."""
    sides = ([], [])
    for image, target in zip(logits, wanted, strict=True):
        for row, wants in zip(image, target, strict=True):
            for value, side in zip(row, wants, strict=True):
                if side != 255:
                    sides[side].append(math.log1p(math.exp(-value if side else value)))
    return sum(sum(side) / len(side) for side in sides if side) / 2


def signed_distance(labels, label):
    """φ of one class: a share of the diagonal, negative inside; 0 where it is not, or is everywhere."""
    height, width = len(labels), len(labels[0])
    known = [(y, x) for y in range(height) for x in range(width) if labels[y][x] != 255]
    inside = [(y, x) for y, x in known if labels[y][x] == label]
    outside = [(y, x) for y, x in known if labels[y][x] != label]
    found = [[0.0] * width for _ in range(height)]
    if inside and outside:
        for y, x in known:
            mine = labels[y][x] == label
            least = min(math.hypot(y - a, x - b) for a, b in (outside if mine else inside))
            found[y][x] = (least - 0.5) / math.hypot(height, width) * (-1 if mine else 1)
    return found


def boundary_loss(p, signed, labels):
    """p and signed: [b][k][y][x], the background of p first; labels [b][y][x]."""
    total = count = 0.0
    for maps, distances, image in zip(p, signed, labels, strict=True):
        for y, row in enumerate(image):
            for x, label in enumerate(row):
                if label != 255:
                    count += 1
                    total += sum(one[y][x] * other[y][x] for one, other in zip(maps[1:], distances, strict=True))
    return total / count
