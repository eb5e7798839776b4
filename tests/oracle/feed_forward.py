"""max(0, x W₁ + b₁) W₂ + b₂ for one token."""

from oracle.multihead import linear, pair


def feed_forward(x, inner, outer):
    """x (C,); inner and outer are pairs (weight, bias), one row of weight for each output → (C,)."""
    hidden = [max(0.0, number) for number in linear(x, *inner)]
    return linear(hidden, *outer)


def like(module, x):
    return [[feed_forward(token, pair(module.inner), pair(module.outer)) for token in sample] for sample in x.tolist()]
