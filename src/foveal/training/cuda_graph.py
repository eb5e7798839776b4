"""A training step in one launch: forward and backward pass are recorded once for each shape of batch,
and replayed (CUDA graphs).

    (L, ∂L/∂w) = replay(batch)
    from there the gradient goes on as any other does: to accumulation, clipping and the optimiser

A step of a small Transformer is hundreds of kernels of a few microseconds each, which take Python longer to launch
than a GPU to run. What is recorded must have few shapes (`bucketed` batches), must not read numbers (which would make
the GPU wait), and draws its random numbers from the generator's state at its replay.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from foveal.core.keep_alive import keeping
from foveal.errors import expect

WARM_UP = 2  # runs before a recording: kernels are chosen and loaded in them


class CudaGraph:
    """Some work on a GPU that `replay` does again in one launch, on what is then in the same tensors."""

    def __init__(self, work: Callable[[], object], pool: Any = None) -> None:
        """pool: memory of another recording that never runs at the same time."""
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                work()
        torch.cuda.current_stream().wait_stream(aside)
        self.kept = list[object]()
        self.graph = torch.cuda.CUDAGraph()
        # Of this thread only: another one may be pinning memory meanwhile.
        with keeping(self.kept), torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local"):
            work()

    def replay(self) -> None:
        self.graph.replay()


class GraphedLoss:
    """A module from tensors to a loss, which is one launch from the second time on that it sees a shape.

    On a CPU it is computed as it is.

    A loss must have its gradient taken before the next one is computed: there is one place for the gradients of all.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module, self.weights = module, [weight for weight in module.parameters() if weight.requires_grad]
        # The same numbers as leaves of their own: of a weight, autograd may remember that another stream wants its
        # gradient.
        self.leaves = {
            name: weight.detach().requires_grad_() for name, weight in module.named_parameters() if weight.requires_grad
        }
        self.gradients = [torch.zeros_like(weight) for weight in self.weights]
        self.used = [True] * len(self.weights)  # whether the loss depends on a weight: a head may have no part in it
        first = self.weights[0]
        self.loss = torch.zeros((), device=first.device, dtype=torch.promote_types(first.dtype, torch.float32))
        self.replays: dict[object, tuple[list[Tensor], Callable[[], None]]] = {}
        self.pool: Any = None  # of memory that all recordings share, since no two run at a time
        self.number = 0  # of the last replay

    def __call__(self, *batch: Tensor) -> Tensor:
        kind = self.loss.device.type
        mixed = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        key = (*(tensor.shape for tensor in batch), mixed, self.module.training)
        if key not in self.replays:
            self.replays[key] = self._record(batch, mixed)
        inputs, replay = self.replays[key]
        for place, tensor in zip(inputs, batch, strict=True):
            place.copy_(tensor)
        replay()
        self.number += 1
        loss: Tensor = _Replayed.apply(self, *self.weights)  # type: ignore[no-untyped-call]
        return loss

    def _record(self, batch: Sequence[Tensor], mixed: torch.dtype | None) -> tuple[list[Tensor], Callable[[], None]]:
        inputs = [tensor.clone() for tensor in batch]
        device = self.loss.device
        if device.type != "cuda":
            return inputs, lambda: self._compute(inputs, mixed)
        with torch.cuda.device(device):
            random = torch.cuda.get_rng_state(device)
            buffers = list(self.module.buffers())  # BatchNorm's statistics move with every pass
            before = [buffer.clone() for buffer in buffers]
            recording = CudaGraph(lambda: self._compute(inputs, mixed), self.pool)
            torch.cuda.set_rng_state(random, device)  # a step is the same whether or not it is the first of its shape
            with torch.no_grad():
                for buffer, value in zip(buffers, before, strict=True):
                    buffer.copy_(value)
        self.pool = recording.graph.pool()
        return inputs, recording.replay

    def _compute(self, inputs: Sequence[Tensor], mixed: torch.dtype | None) -> None:
        # Weights that autocast keeps in 16 bits from call to call would be those of the recording for ever.
        with torch.enable_grad(), torch.autocast(self.loss.device.type, mixed, mixed is not None, cache_enabled=False):
            loss = functional_call(self.module, self.leaves, tuple(inputs))
        found = torch.autograd.grad(loss, list(self.leaves.values()), allow_unused=True)
        self.used = [gradient is not None for gradient in found]
        pairs = [(to, of) for to, of in zip(self.gradients, found, strict=True) if of is not None]
        torch._foreach_copy_([to for to, _ in pairs], [of for _, of in pairs])
        self.loss.copy_(loss.detach())


class _Replayed(torch.autograd.Function):
    """The loss of the last replay, with its gradient."""

    @staticmethod
    def forward(context: Any, cuda_graphs: GraphedLoss, *_: Tensor) -> Tensor:
        context.cuda_graphs, context.number = cuda_graphs, cuda_graphs.number
        return cuda_graphs.loss.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        cuda_graphs: GraphedLoss = context.cuda_graphs
        expect(
            context.number == cuda_graphs.number,
            "a recorded loss",
            "its gradient before the next loss",
            "another loss in between",
        )
        found = torch._foreach_mul(cuda_graphs.gradients, gradient)
        return None, *(one if used else None for one, used in zip(found, cuda_graphs.used, strict=True))
