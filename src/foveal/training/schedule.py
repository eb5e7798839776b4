"""The learning rate over a run: a linear warm-up, then a cosine down to a hundredth, or the root of the steps,
as the Transformer was trained.

    cosine:  lr(t) = lr · (t + 1)/(w + 1) for t < w;   lr · (ε + (1 − ε)·(1 + cos π(t − w)/(T − w))/2) after it
    root:    lr(t) = lr · min((t + 1)/w, √(w/(t + 1)))

T steps, of which w warm up; ε is FLOOR. With lr = (C·w)^−½ the root is the paper's C^−½ · min(step^−½, step · w^−3/2),
C being the width.
Paper: Ashish Vaswani et al. (2017). Attention is all you need, equation 3.
"""

import math

FLOOR = 0.01  # ε


def cosine(step: int, steps: int, warmup: int) -> float:
    """The factor on the learning rate at `step` of `steps`."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    return FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * done)) / 2


def root(step: int, warmup: int) -> float:
    """The factor on the learning rate at `step`, from 0 on."""
    return min((step + 1) / warmup, math.sqrt(warmup / (step + 1)))
