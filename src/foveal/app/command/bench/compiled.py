"""torch.compile as a contender of `foveal bench models`: a graph for each batch,
and apart from its time the seconds that it took to make.

compile time = time of the first call, with nothing in torch's caches; where this machine cannot compile, the reason in
a line
"""

import time
from typing import Any

from foveal.deploy.measure.clock import Job
from foveal.errors import FovealError

MOST = 256  # graphs of one function; past torch's own limit of 8 it would go on uncompiled, and say nothing


class CannotCompileError(FovealError):
    """torch.compile does not work on this machine, or not with this model."""


class Compiled:
    """Inputs of a batch → the model's answer, by a graph that is made when a batch is first asked for."""

    def __init__(self, model: Any) -> None:
        self.model = model.eval().requires_grad_(False)
        self.seconds: dict[int, float] = {}  # of a batch
        self._jobs: dict[int, Job] = {}

    def __call__(self, batch: int) -> Job:
        if batch not in self._jobs:
            self._jobs[batch] = self._made(batch)
        return self._jobs[batch]

    def _made(self, batch: int) -> Job:
        import torch
        from torch._inductor.utils import fresh_cache

        draw = torch.Generator().manual_seed(0)
        inputs = [
            torch.randn(one.shape, generator=draw) if one.is_floating_point() else one
            for one in self.model.example(batch)
        ]
        net: Any = torch.compile(self.model, dynamic=False)

        @torch.inference_mode()
        def once() -> Any:
            return net(*inputs)

        start = time.perf_counter()
        try:
            with fresh_cache(), torch._dynamo.config.patch(recompile_limit=MOST, fail_on_recompile_limit_hit=True):
                once()
        except Exception as error:  # noqa: BLE001 — torch.compile has many kinds; none stops another contender
            raise CannotCompileError(_reason(error)) from None
        self.seconds[batch] = time.perf_counter() - start
        return once


def _reason(error: Exception) -> str:
    reason = " ".join(str(error).partition("\n")[0].split())[:160]
    if "InvalidCxxCompiler" in reason:
        return "torch.compile: expected a C++ compiler, got none that works; install g++, or name one in CXX"
    return f"torch.compile: expected a graph, got {reason}"
