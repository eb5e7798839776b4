"""Queries, keys and values to try attention on, and what must come out equal."""

import torch

from foveal import attend
from foveal.mask import bigbird, causal, local, longformer, padding, prefix, random, strided, to_global

KERNELS = ["flash", "blocks", "auto"]
MASKS = [
    None, causal, local(3), local(3) & causal, causal & padding([20, 0]), padding([3, 37]), prefix(4) | causal,
    strided(5), strided(5) | local(2), causal & (local(4) | strided(4)), strided(3) | strided(7) | local(1),
    random(2, seed=3), random(2, seed=3, block=4), to_global(2), longformer(3, 1), bigbird(2, 2, 1), ~local(20),
    causal & ~causal, local(50), (strided(6) | local(2)).starting_at(4), ~causal & padding([9, 37]),
    local(2) | padding([30, 0]),
]  # fmt: skip
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}


def heads(
    queries=37, keys=37, *, batch=2, count=3, groups=None, width=5, value_width=None, dtype=torch.float64, seed=0
):
    """q (B, H, N, D), k (B, G, M, D), v (B, G, M, E), with gradients."""
    generator = torch.Generator().manual_seed(seed)
    groups, value_width = groups or count, width if value_width is None else value_width
    shapes = (batch, count, queries, width), (batch, groups, keys, width), (batch, groups, keys, value_width)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


def with_gradients(tensors, *, also=(), **options):
    """y, and the gradients of a fixed weighted sum of y with respect to the tensors and `also`."""
    y = attend(*tensors, **options)
    upstream = torch.randn(y.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64).to(y.dtype)
    return [y, *torch.autograd.grad(y, [*tensors, *also], upstream)]


def near(found, expected, tolerance=1e-10):
    """Equal, up to that share of the largest number (or of 1)."""
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        assert one.isfinite().all()
        if other.numel():
            one, other = one.detach().double(), other.detach().double()
            assert float((one - other).abs().max()) <= tolerance * max(1.0, float(other.abs().max()))
