"""Rotary positions, in loops: complex numbers that turn."""

import cmath


def rotary(x, start, base):
    """x: N lists of D numbers, row n at position start + n → the same, turned; channel c pairs with channel c + D/2."""
    turned = []
    for n, row in enumerate(x):
        half = len(row) // 2
        new = [0.0] * len(row)
        for c in range(half):
            hand = complex(row[c], row[c + half]) * cmath.exp(1j * (start + n) / base ** (2 * c / len(row)))
            new[c], new[c + half] = hand.real, hand.imag
        turned.append(new)
    return turned


def like(module, q, k):
    return [[[rotary(rows, 0, module.base) for rows in heads] for heads in x.tolist()] for x in (q, k)]
