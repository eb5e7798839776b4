"""The learning rate over a run: a linear warm-up, then a cosine down to a hundredth.

    lr(t) = lr · (t + 1)/(w + 1) for t < w;   lr · (ε + (1 − ε)·(1 + cos π(t − w)/(T − w))/2) after it

T steps, of which w warm up; ε is FLOOR.
"""

import math

FLOOR = 0.01  # ε


def cosine(step: int, steps: int, warmup: int) -> float:
    """The factor on the learning rate at `step` of `steps`."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    return FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * done)) / 2
