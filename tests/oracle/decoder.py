"""A decoder block of one sample, causal."""

from oracle.encoder import wrapped
from oracle.feed_forward import feed_forward
from oracle.multihead import multihead, pair, parts


def decoder(x, memory, own, cross, heads, inner, outer, norms, pre):
    """x (N, C), memory (M, C′); own and cross are (q, k, v, out); norms are three pairs (gain, offset) → (N, C)."""
    x = wrapped(x, lambda tokens: multihead(tokens, tokens, *own, heads, heads, lambda i, j: j <= i), norms[0], pre)
    x = wrapped(x, lambda tokens: multihead(tokens, memory, *cross, heads, heads), norms[1], pre)
    return wrapped(x, lambda tokens: [feed_forward(token, inner, outer) for token in tokens], norms[2], pre)


def like(module, x, memory):
    """The block of the example, which is causal."""
    own, cross, network = module.self_attention, module.cross_attention, module.feed_forward
    norms, pre = [pair(layer.norm) for layer in (own, cross, network)], type(own).__name__ == "PreNorm"
    maps = pair(network.layer.inner), pair(network.layer.outer)
    weights = parts(own.layer), parts(cross.layer), own.layer.heads, *maps, norms, pre
    return [decoder(*sample, *weights) for sample in zip(x.tolist(), memory.tolist(), strict=True)]
