"""`foveal bench crossover`: from which length on the Performer's linear attention beats exact attention,
and what it costs in error.
"""

import math
from itertools import pairwise

import torch
from torch import Tensor

from foveal.core.attend import attend
from foveal.core.linear import linear, orthogonal
from foveal.report.bench import Bench, Row

OBEYS = ("max_length",)  # the flags that it obeys


def measure(bench: Bench) -> None:
    """4 heads of 64, no mask, 64 and 256 features."""
    torch.manual_seed(0)
    for features in (64, 256):
        projection = orthogonal(features, 64).to(bench.device)
        lengths = [256 * 2**step for step in range(int(math.log2(bench.longest / 256)) + 1)]
        curve = [(length, _one(bench, length, projection)) for length in lengths]
        bench.add(Row(f"{features} features: linear beats exact from", _crossing(curve), "", None, ""))


def _one(bench: Bench, length: int, projection: Tensor) -> float:
    """The ratio at one length, with its row in the table."""
    dtype = torch.float32 if bench.device == "cpu" else torch.bfloat16
    q, k, v = (torch.randn(1, 4, length, 64, device=bench.device, dtype=dtype) for _ in range(3))
    what = f"{len(projection)} features, N={length}"
    with torch.no_grad():
        jobs = {"linear": lambda: linear(q, k, v, projection), "exact": lambda: attend(q, k, v)}
        taken = bench.time(what, jobs, max(3, min(bench.rounds, bench.rounds * 4096 // length)))
        loud, calm = _error(q, k, v, projection), _error(q / 4, k / 4, v, projection)
    ratio = taken["exact"].median / taken["linear"].median
    mine, other = (f"{taken[name].median * 1e3:.2f} ms" for name in ("linear", "exact"))
    words = f"linear {mine}, error {loud:.2f} (q, k ~ N(0,1)), {calm:.3f} (q, k ~ N(0,1/16))"
    bench.add(Row(what, words, f"exact {other}", ratio, "× faster than exact"))
    return ratio


def _error(q: Tensor, k: Tensor, v: Tensor, projection: Tensor) -> float:
    """‖linear − exact‖ / ‖exact‖"""
    exact = attend(q, k, v)
    return float((linear(q, k, v, projection) - exact).norm() / exact.norm())


def _crossing(curve: list[tuple[int, float]]) -> str:
    """Where the ratio passes 1, between two lengths on a logarithmic line."""
    if curve[0][1] >= 1:
        return f"N ≤ {curve[0][0]}"
    for (short, before), (long, after) in pairwise(curve):
        if before < 1 <= after:
            share = -math.log(before) / (math.log(after) - math.log(before))
            return f"N ≈ {short * (long / short) ** share:.0f}"
    return f"no length up to {curve[-1][0]}"
