"""Location-based attention, in loops: the score, and the layer around it."""

from oracle.score import mean, product


def location(state, memory, weight):
    """state (N, C), memory (M, E), W_a (at least M, C) → y (N, E)."""
    return mean([product(weight[: len(memory)], row) for row in state], memory)


def score(state, weight, keys=None):
    """state (B, H, N, C), W_a (M, C) → (B, H, N, keys)."""
    return [[[product(weight[:keys], row) for row in rows] for rows in heads] for heads in state]


def like(module, state, memory):
    return [
        location(*sample, module.place.weight.tolist()) for sample in zip(state.tolist(), memory.tolist(), strict=True)
    ]
