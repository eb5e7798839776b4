"""Figures of label maps, one pixel at a time. truth[y][x] and predicted[y][x], 255 unlabelled; None is undefined."""

import math

from oracle.components import components
from oracle.skeleton import skeleton


def confusion(truth, predicted, classes):
    table = [[0] * (classes + 1) for _ in range(classes + 1)]
    for real, said in pairs(truth, predicted):
        table[real][said] += 1
    return table


def pairs(truth, predicted):
    return [
        (real, said)
        for row, other in zip(truth, predicted, strict=True)
        for real, said in zip(row, other, strict=True)
        if real != 255
    ]


def overlaps(images, weight, classes):
    """IoU and Dice of each label, of images (truth, predicted) that count `weight` each."""
    iou, dice = [], []
    for k in range(classes + 1):
        both = either = sizes = 0.0
        for (truth, predicted), times in zip(images, weight, strict=True):
            for real, said in pairs(truth, predicted):
                both += times * (real == k and said == k)
                either += times * (real == k or said == k)
                sizes += times * ((real == k) + (said == k))
        iou.append(both / either if either else None)
        dice.append(2 * both / sizes if sizes else None)
    return iou, dice


def finding_f1(images, weight):
    hit = wrong = 0.0
    for (truth, predicted), times in zip(images, weight, strict=True):
        for real, said in pairs(truth, predicted):
            hit += times * (real > 0 and said > 0)
            wrong += times * ((real > 0) != (said > 0))
    return 2 * hit / (2 * hit + wrong) if hit + wrong else None


def areas(images, weight, label):
    """(error, bias) as shares of the true area."""
    off = signed = there = 0.0
    for (truth, predicted), times in zip(images, weight, strict=True):
        real = sum(one == label for one, _ in pairs(truth, predicted))
        said = sum(one == label for _, one in pairs(truth, predicted))
        off += times * abs(said - real)
        signed += times * (said - real)
        there += times * real
    return (off / there, signed / there) if there else (None, None)


def chosen(truth, predicted, label):
    """Two masks of 0 and 1, of one label, or with label None of whatever finding."""

    def mask(rows):
        return [
            [
                int(known != 255 and (value > 0 if label is None else value == label))
                for value, known in zip(row, other, strict=True)
            ]
            for row, other in zip(rows, truth, strict=True)
        ]

    return mask(truth), mask(predicted)


def places(rows):
    return [(y, x) for y, row in enumerate(rows) for x, value in enumerate(row) if value]


def near_counts(real, said, radius):
    """Right of the predicted, predicted, met of the true, true."""

    def near(one, others):
        return any(math.hypot(one[0] - other[0], one[1] - other[1]) <= radius for other in others)

    real, said = places(real), places(said)
    return [sum(near(one, real) for one in said), len(said), sum(near(one, said) for one in real), len(real)]


def line_counts(real, said):
    thin_real, thin_said = places(skeleton(real)), places(skeleton(said))
    real, said = set(places(real)), set(places(said))
    return [len(real & set(thin_said)), len(thin_said), len(said & set(thin_real)), len(thin_real)]


def f1(right, said, met, real):
    if said + real == 0:
        return None
    precision, recall = right / said if said else 0.0, met / real if real else 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def findings(truth, predicted):
    """(label, area, covered) of each."""
    return [
        (label, len(pixels), sum(predicted[y][x] == label for y, x in pixels))
        for label, pixels in components(truth, 8, (0, 255))
    ]


def missed_size(side, found, share=0.5):
    """The smallest side from which on the recall that rises with size and fits best is `share` and more: pools of
    neighbours whose recall would fall are one.
    """
    pools = []
    for size in sorted(set(side)):
        marks = [mark for one, mark in zip(side, found, strict=True) if one == size]
        pools.append((sum(marks), len(marks), size))
        while len(pools) > 1 and pools[-2][0] * pools[-1][1] >= pools[-1][0] * pools[-2][1]:
            right, count, _ = pools.pop()
            pools[-1] = (pools[-1][0] + right, pools[-1][1] + count, pools[-1][2])
    return next((size for right, count, size in pools if right >= share * count), None)
