"""torch.compile as a contender of `foveal bench models`: a graph for each batch, and apart from its time the seconds that it took to make.

compile time = time of the first call, with nothing in torch's caches; where this machine cannot compile, the reason in a line
"""

import time
from typing import Any

from foveal.deploy.measure.clock import Job
from foveal.errors import FovealError

MOST = 256  # graphs of one function; past torch's own limit of 8 it would go on uncompiled, and say nothing


class CannotCompileError(FovealError):
    """torch.compile does not work on this machine, or not with this model."""


class Compiled:
    """Pictures (B, 3, S, S) → what the model says, by a graph that is made when a batch is first asked for."""

    def __init__(self, model: Any, size: int) -> None:
        self.model, self.size = model.eval().requires_grad_(False), size
        self.seconds: dict[int, float] = {}  # of a batch
        self._jobs: dict[int, Job] = {}

    def __call__(self, batch: int) -> Job:
        if batch not in self._jobs:
            self._jobs[batch] = self._made(batch)
        return self._jobs[batch]

    def _made(self, batch: int) -> Job:
        import torch
        from torch._inductor.utils import fresh_cache

        pictures = torch.randn(batch, 3, self.size, self.size, generator=torch.Generator().manual_seed(0))
        net: Any = torch.compile(self.model, dynamic=False)

        @torch.inference_mode()
        def once() -> Any:
            return net(pictures)

        start = time.perf_counter()
        try:
            with fresh_cache(), torch._dynamo.config.patch(recompile_limit=MOST, fail_on_recompile_limit_hit=True):
                once()
        except Exception as error:  # noqa: BLE001 — torch.compile has many kinds, and one of them stops no other contender
            raise CannotCompileError(_reason(error)) from None
        self.seconds[batch] = time.perf_counter() - start
        return once


def _reason(error: Exception) -> str:
    told = " ".join(str(error).partition("\n")[0].split())[:160]
    if "InvalidCxxCompiler" in told:
        return "torch.compile: expected a C++ compiler, got none that works; install g++, or name one in CXX"
    return f"torch.compile: expected a graph, got {told}"
