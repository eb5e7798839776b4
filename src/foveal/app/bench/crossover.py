"""`foveal bench crossover`: from which length on the Performer's linear attention beats exact attention, and what it costs in error."""

import math
from itertools import pairwise

import torch

from foveal.app.bench.table import Bench, Row
from foveal.core.attend import attend
from foveal.core.linear import linear, orthogonal


def measure(bench: Bench) -> None:
    """4 heads of 64, no mask; error = ‖linear − exact‖ / ‖exact‖ on queries and keys of a given size."""
    torch.manual_seed(0)
    dtype = torch.float32 if bench.device == "cpu" else torch.bfloat16
    for features in (64, 256):
        projection = orthogonal(features, 64).to(bench.device)
        curve = []
        length = 256
        while length <= bench.longest:
            q, k, v = (torch.randn(1, 4, length, 64, device=bench.device, dtype=dtype) for _ in range(3))
            with torch.no_grad():
                what = f"{features} features, N={length}"
                jobs = {"linear": lambda: linear(q, k, v, projection), "exact": lambda: attend(q, k, v)}
                taken = bench.time(what, jobs, max(3, min(bench.rounds, bench.rounds * 4096 // length)))
                exact = attend(q, k, v)
                error = float((linear(q, k, v, projection) - exact).norm() / exact.norm())
                calm = attend(q / 4, k / 4, v)
                small = float((linear(q / 4, k / 4, v, projection) - calm).norm() / calm.norm())
            ratio = taken["exact"].median / taken["linear"].median
            curve.append((length, ratio))
            mine, other = (f"{taken[name].median * 1e3:.2f} ms" for name in ("linear", "exact"))
            told = f"linear {mine}, error {error:.2f} (q, k ~ N(0,1)), {small:.3f} (q, k ~ N(0,1/16))"
            bench.add(Row(what, told, f"exact {other}", ratio, "× faster than exact"))
            length *= 2
        bench.add(Row(f"{features} features: linear beats exact from", _crossing(curve), "", None, ""))


def _crossing(curve: list[tuple[int, float]]) -> str:
    """Where the ratio passes 1, between two lengths on a logarithmic line."""
    if curve[0][1] >= 1:
        return f"N ≤ {curve[0][0]}"
    for (short, before), (long, after) in pairwise(curve):
        if before < 1 <= after:
            share = -math.log(before) / (math.log(after) - math.log(before))
            return f"N ≈ {short * (long / short) ** share:.0f}"
    return f"no length up to {curve[-1][0]}"
