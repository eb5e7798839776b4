"""The loss of mask classification, of one image and one layer, by trying all assignments."""

import itertools
import math


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def softmax(row):
    powers = [math.exp(value - max(row)) for value in row]
    return [power / sum(powers) for power in powers]


def best_assignment(cost):
    """cost[row][column] with as many columns as rows or more → the column of each row, of the least sum."""
    rows, columns = len(cost), len(cost[0]) if cost else 0
    return min(
        itertools.permutations(range(columns), rows),
        key=lambda chosen: sum(cost[row][column] for row, column in enumerate(chosen)),
    )


def mask_loss(mask, wanted, focal):
    """mask: logits; wanted: 0 and 1, or None where nothing is labelled; both flat."""
    total = count = 0.0
    for m, y in zip(mask, wanted, strict=True):
        if y is not None:
            count += 1
            right = sigmoid(m if y else -m)
            weight = (0.25 if y else 0.75) * (1 - right) ** 2 if focal else 1.0
            total -= weight * math.log(right)
    return total / count


def dice_loss(mask, wanted):
    both = sizes = 0.0
    for m, y in zip(mask, wanted, strict=True):
        if y is not None:
            both += sigmoid(m) * y
            sizes += sigmoid(m) + y
    return 1 - (2 * both + 1) / (sizes + 1)


def set_losses(classes, masks, labels, weights):
    """One image: classes[q][k] logits, the last for nothing; masks[q][pixel] logits; labels[pixel] → (weighed sum of
    the class losses, sum of their weights, sum of the mask losses, number of masks).
    """
    of_class, of_mask, of_dice, focal, nothing = weights
    known = sorted({label for label in labels if label != 255})
    p = [softmax(row) for row in classes]

    def of_masks(q, k):
        wanted = [None if label == 255 else int(label == k) for label in labels]
        return of_mask * mask_loss(masks[q], wanted, focal) + of_dice * dice_loss(masks[q], wanted)

    cost = [[of_masks(q, k) - of_class * p[q][k] for q in range(len(classes))] for k in known]
    chosen = dict(zip(known, best_assignment(cost), strict=True))
    says = {q: k for k, q in chosen.items()}
    last = len(classes[0]) - 1
    said = weight = 0.0
    for q in range(len(classes)):
        if known:
            share = 1.0 if q in says else nothing
            said -= share * math.log(p[q][says.get(q, last)])
            weight += share
    return said, weight, sum(of_masks(q, k) for k, q in chosen.items()), len(known)
