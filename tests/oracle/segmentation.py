"""Losses of label maps, pixel by pixel. p[b][k][y][x] probabilities, labels[b][y][x], 255 unlabelled."""

import math


def softmax(logits):
    """logits[b][k][y][x] → probabilities in the same form."""
    found = []
    for image in logits:
        height, width = len(image[0]), len(image[0][0])
        maps = [[[0.0] * width for _ in range(height)] for _ in image]
        for y in range(height):
            for x in range(width):
                top = max(one[y][x] for one in image)
                powers = [math.exp(one[y][x] - top) for one in image]
                for k, power in enumerate(powers):
                    maps[k][y][x] = power / sum(powers)
        found.append(maps)
    return found


def pixels(labels):
    """(image, row, column, label) of all that are labelled."""
    for b, image in enumerate(labels):
        for y, row in enumerate(image):
            for x, label in enumerate(row):
                if label != 255:
                    yield b, y, x, label


def cross_entropies(p, labels, weights, smoothing):
    """One for each labelled pixel."""
    found = []
    for b, y, x, label in pixels(labels):
        classes, total = len(p[b]), 0.0
        for k in range(classes):
            wanted = smoothing / classes + (1 - smoothing if k == label else 0.0)
            total -= wanted * math.log(p[b][k][y][x])
        found.append(weights[label] * total)
    return found


def focal(p, labels, weights, gamma):
    each = []
    for b, y, x, label in pixels(labels):
        right = p[b][label][y][x]
        each.append(-weights[label] * (1 - right) ** gamma * math.log(right))
    return sum(each) / len(each)


def dice(p, labels, background):
    values = []
    for k in range(0 if background else 1, len(p[0])):
        both = claimed = area = 0.0
        for b, y, x, label in pixels(labels):
            claimed += p[b][k][y][x]
            if label == k:
                both += p[b][k][y][x]
                area += 1
        if area:
            values.append(2 * both / (claimed + area))
    return 1 - sum(values) / len(values) if values else 0.0


def soft_cross_entropy(p, t, weights):
    """t[b][k][y][x]: what teachers say."""
    total = mass = 0.0
    for image, soft in zip(p, t, strict=True):
        classes = range(len(image))
        for y in range(len(image[0])):
            for x in range(len(image[0][0])):
                weight = sum(weights[k] * soft[k][y][x] for k in classes)
                total -= weight * sum(soft[k][y][x] * math.log(image[k][y][x]) for k in classes)
                mass += weight
    return total / mass
