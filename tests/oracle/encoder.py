"""An encoder block of one sample."""

from oracle.feed_forward import feed_forward
from oracle.multihead import multihead, pair, parts
from oracle.residual import layer_norm


def encoder(x, attention, heads, inner, outer, norms, pre, keeps=None):
    """x (N, C); attention is (q, k, v, out); norms are two pairs (gain, offset).

    pre: LayerNorm before each layer, not after the sum. → (N, C).
    """
    x = wrapped(x, lambda tokens: multihead(tokens, tokens, *attention, heads, heads, keeps), norms[0], pre)
    return wrapped(x, lambda tokens: [feed_forward(token, inner, outer) for token in tokens], norms[1], pre)


def wrapped(x, layer, norm, pre):
    """A layer on all tokens, with residual connection and LayerNorm."""
    change = layer([layer_norm(token, *norm) for token in x] if pre else x)
    summed = [[a + b for a, b in zip(token, other, strict=True)] for token, other in zip(x, change, strict=True)]
    return summed if pre else [layer_norm(token, *norm) for token in summed]


def like(module, x):
    """The block of the example, without a mask."""
    attention, network = module.attention, module.feed_forward
    norms, pre = (pair(attention.norm), pair(network.norm)), type(attention).__name__ == "PreNorm"
    maps = pair(network.layer.inner), pair(network.layer.outer)
    return [encoder(sample, parts(attention.layer), attention.layer.heads, *maps, norms, pre) for sample in x.tolist()]
