"""A decoder block of one sample, causal."""

from oracle.encoder import wrapped
from oracle.feed_forward import feed_forward
from oracle.multihead import multihead


def decoder(x, memory, own, cross, heads, inner, outer, norms, pre):
    """x (N, C), memory (M, C′); own and cross are (q, k, v, out); norms are three pairs (gain, offset) → (N, C)."""
    x = wrapped(x, lambda tokens: multihead(tokens, tokens, *own, heads, heads, lambda i, j: j <= i), norms[0], pre)
    x = wrapped(x, lambda tokens: multihead(tokens, memory, *cross, heads, heads), norms[1], pre)
    return wrapped(x, lambda tokens: [feed_forward(token, inner, outer) for token in tokens], norms[2], pre)
