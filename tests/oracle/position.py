"""No position: the tokens as they are. And what positions that are added to tokens share."""


def position(x):
    """x (N, C) → (N, C)."""
    return [list(token) for token in x]


def added(tokens, places):
    """Two lists of N lists of C numbers → their sum."""
    return [[a + b for a, b in zip(token, place, strict=True)] for token, place in zip(tokens, places, strict=True)]


def like(module, x):
    return [position(sample) for sample in x.tolist()]
