"""A step of training in one launch: forward and backward pass are recorded once for each shape of batch, and replayed (CUDA graphs).

    (L, ∂L/∂w) = replay(batch);   from there the gradient goes on as any other does: to accumulation, clipping and the optimiser

A step of the tiny Transformer is 745 kernels: 5 ms of a GPU's work, which Python takes 23 ms to launch. What is recorded must have few shapes
(`settled` batches), must not look at numbers (which would make the GPU wait), and draws its random numbers from the generator's state at its replay.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

WARM_UP = 2  # runs before a recording: kernels are chosen and loaded in them


class Recorded:
    """A module from tensors to a loss, which is one launch from the second time on that it sees a shape. On a CPU it is computed as it is."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.weights = module, list(module.parameters())
        # The same numbers as leaves of their own: of a weight, autograd may remember that another stream wants its gradient.
        self.leaves = {name: weight.detach().requires_grad_() for name, weight in module.named_parameters()}
        self.gradients = [torch.zeros_like(weight) for weight in self.weights]
        self.loss = torch.zeros((), device=self.weights[0].device)
        self.replays: dict[tuple[torch.Size, ...], tuple[list[Tensor], Callable[[], None]]] = {}
        self.pool: Any = None  # of memory that all recordings share, since no two run at a time

    def __call__(self, *batch: Tensor) -> Tensor:
        shapes = tuple(tensor.shape for tensor in batch)
        if shapes not in self.replays:
            self.replays[shapes] = self._record(batch)
        inputs, replay = self.replays[shapes]
        for place, tensor in zip(inputs, batch, strict=True):
            place.copy_(tensor)
        replay()
        loss: Tensor = _Replayed.apply(self, *self.weights)  # type: ignore[no-untyped-call]
        return loss

    def _record(self, batch: Sequence[Tensor]) -> tuple[list[Tensor], Callable[[], None]]:
        inputs = [tensor.clone() for tensor in batch]
        device = self.loss.device
        if device.type != "cuda":
            return inputs, lambda: self._compute(inputs)
        random = torch.cuda.get_rng_state(device)
        aside = torch.cuda.Stream(device)
        aside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                self._compute(inputs)
        torch.cuda.current_stream(device).wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            self._compute(inputs)
        self.pool = graph.pool()
        torch.cuda.set_rng_state(random, device)  # a step is the same whether or not it is the first of its shape
        return inputs, graph.replay

    def _compute(self, inputs: Sequence[Tensor]) -> None:
        kind = self.loss.device.type
        # Weights that autocast keeps in 16 bits from call to call would be those of the recording for ever.
        mixed = torch.autocast(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind), cache_enabled=False)
        with torch.enable_grad(), mixed:
            loss = functional_call(self.module, self.leaves, tuple(inputs))
        found = torch.autograd.grad(loss, list(self.leaves.values()))
        torch._foreach_copy_(self.gradients, list(found))
        self.loss.copy_(loss.detach())


class _Replayed(torch.autograd.Function):
    """The loss of the last replay, with its gradient."""

    @staticmethod
    def forward(context: Any, recorded: Recorded, *_: Tensor) -> Tensor:
        context.recorded = recorded
        return recorded.loss.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, *torch._foreach_mul(context.recorded.gradients, gradient)
