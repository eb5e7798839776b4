"""Metrics in plain loops, one image at a time.

None is undefined. truth and chosen are 0/1 of one class; weight counts an image.
"""

import itertools
import math


def counts(truth, chosen, weight):
    hit = false = missed = passed = 0.0
    for real, said, times in zip(truth, chosen, weight, strict=True):
        if real and said:
            hit += times
        elif said:
            false += times
        elif real:
            missed += times
        else:
            passed += times
    return hit, false, missed, passed


def precision(truth, chosen, weight):
    hit, false, _, _ = counts(truth, chosen, weight)
    return hit / (hit + false) if hit + false else None


def recall(truth, chosen, weight):
    hit, _, missed, _ = counts(truth, chosen, weight)
    return hit / (hit + missed) if hit + missed else None


def f_beta(truth, chosen, weight, beta=1.0):
    """(1+β²)·P·R/(β²·P+R); 0 when the class was never found, undefined when it is neither there nor named."""
    hit, false, missed, _ = counts(truth, chosen, weight)
    if hit + false + missed == 0:
        return None
    if hit == 0:
        return 0.0
    p, r = hit / (hit + false), hit / (hit + missed)
    return (1 + beta**2) * p * r / (beta**2 * p + r)


def average_precision(truth, score, weight):
    """Lower the threshold from score to score; add precision times the recall that was gained."""
    positive = sum(times for real, times in zip(truth, weight, strict=True) if real)
    if positive == 0:
        return None
    area = before = 0.0
    for threshold in sorted(set(score), reverse=True):
        chosen = [value >= threshold for value in score]
        hit, false, _, _ = counts(truth, chosen, weight)
        if hit + false:
            area += (hit - before) / positive * hit / (hit + false)
        before = hit
    return area


def roc_auc(truth, score, weight):
    """The chance that a positive stands above a negative; level counts half."""
    won = total = 0.0
    for real, value, times in zip(truth, score, weight, strict=True):
        for other, against, others in zip(truth, score, weight, strict=True):
            if real and not other:
                total += times * others
                won += times * others * (1.0 if value > against else 0.5 if value == against else 0.0)
    return won / total if total else None


def confusion(truth, chosen, weight, classes):
    table = [[0.0] * classes for _ in range(classes)]
    for real, said, times in zip(truth, chosen, weight, strict=True):
        table[real][said] += times
    return table


def calibration_error(confidence, right, weight, bins=15):
    total, error = sum(weight), 0.0
    for place in range(bins):
        size = sure = good = 0.0
        for value, correct, times in zip(confidence, right, weight, strict=True):
            if min(int(value * bins), bins - 1) == place:
                size += times
                sure += times * value
                good += times * correct
        if size:
            error += size / total * abs(good / size - sure / size)
    return error


def mean(values):
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def f2_ciw(truth, probability, importance):
    """truth and probability by image; 5PR/(4P+R), and 0 wherever that cannot be computed."""
    total = 0.0
    for index, weight in enumerate(importance):
        real = [row[index] for row in truth]
        said = [row[index] >= 0.5 for row in probability]
        ones = [1] * len(real)
        p, r = precision(real, said, ones), recall(real, said, ones)
        total += 0.0 if not p or not r else weight * 5 * p * r / (4 * p + r)
    return total / sum(importance)


def f1_normal(truth, probability):
    real = [sum(row) == 0 for row in truth]
    said = [all(value < 0.5 for value in row) for row in probability]
    return f_beta(real, said, [1] * len(real))


def log_loss(truth, logits, temperature):
    """One label: the mean of −log softmax(logits/T)[truth]."""
    total = 0.0
    for real, row in zip(truth, logits, strict=True):
        powers = [math.exp(value / temperature) for value in row]
        total -= math.log(powers[real] / sum(powers))
    return total / len(truth)


def best_threshold(truth, score, worth):
    """Try every cut between neighbouring distinct scores, and the one below all.

    (best worth, the cuts that reach it).
    """
    known = sorted(set(score))
    cuts = [known[0] / 2] + [(low + high) / 2 for low, high in itertools.pairwise(known)]
    values = [worth(truth, [value >= cut for value in score]) for cut in cuts]
    return max(values), [cut for cut, value in zip(cuts, values, strict=True) if value >= max(values) - 1e-12]
