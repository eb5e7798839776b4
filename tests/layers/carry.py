"""Weights carried over: from foveal's layers to the oracles' lists,
and from other libraries' modules to foveal's layers.
"""

import torch
from oracle.multihead import pair, parts  # noqa: F401  foveal's weights as the oracles take them


def near(a, b, close=1e-12):
    """Whether two tensors have one shape, and no numbers that differ by more than `close`."""
    return a.shape == b.shape and (a - b).abs().max().item() <= close


@torch.no_grad()
def fill(layer, q, k, v, out):
    """Give a MultiHead the weights of four nn.Linear, or of four pairs (weight, bias)."""
    q, k, v, out = ((part.weight, part.bias) if isinstance(part, torch.nn.Module) else part for part in (q, k, v, out))
    if layer.qkv is not None:
        _copy(layer.qkv, q, k, v)
    else:
        _copy(layer.q, q)
        _copy(layer.kv, k, v)
    _copy(layer.out, out)
    return layer


def fill_from_torch(layer, module):
    """Give a MultiHead the weights of an nn.MultiheadAttention."""
    if module.in_proj_weight is None:
        weights = [module.q_proj_weight, module.k_proj_weight, module.v_proj_weight]
    else:
        weights = list(module.in_proj_weight.chunk(3))
    biases = [None] * 3 if module.in_proj_bias is None else list(module.in_proj_bias.chunk(3))
    return fill(layer, *zip(weights, biases, strict=True), module.out_proj)


def _copy(target, *sources):
    target.weight.copy_(torch.cat([weight for weight, _ in sources]))
    if target.bias is not None:
        target.bias.copy_(torch.cat([bias for _, bias in sources]))


def scatter(module, seed=0):
    """Every parameter drawn anew, so that no bias is 0 and no gain is 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.5)
    return module
