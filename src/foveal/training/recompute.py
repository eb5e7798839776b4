"""Gradient checkpointing: what blocks hold for the backward pass is forgotten, and computed again when it is needed.

    memory of L blocks: L inputs, and the inside of one block, in place of the inside of all
    time: one forward pass more

The second pass draws the same dropout, and leaves BatchNorm's running statistics and its counter alone: they would be
moved twice.
Paper, if recipe.checkpointing: Tianqi Chen, Bing Xu, Chiyuan Zhang, Carlos Guestrin (2016). Training deep nets with
    sublinear memory cost. arXiv:1604.06174.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint


def outermost_blocks(model: nn.Module, lists: tuple[type[nn.Module], ...] = (nn.ModuleList,)) -> Iterator[nn.Module]:
    """The blocks of a model's outermost lists: a list within a block is computed again with its block."""
    for part in model.children():
        if isinstance(part, lists):
            yield from part.children()
        else:
            yield from outermost_blocks(part, lists)


def recompute(blocks: Iterable[nn.Module]) -> None:
    """Let these blocks forget, in training; in evaluation they are as they were.

    A copy of the model must be made before: it would share this forward.
    """
    for block in blocks:
        block.forward = _forgetful(block)


def _forgetful(block: nn.Module) -> Any:
    forward = block.forward

    def forgetful(*inputs: Any, **named: Any) -> Any:
        if not (block.training and torch.is_grad_enabled()):
            return forward(*inputs, **named)
        contexts = lambda: (contextlib.nullcontext(), _still(block))  # noqa: E731 — of the first pass and the second
        return checkpoint(forward, *inputs, use_reentrant=False, context_fn=contexts, **named)

    return forgetful


@contextlib.contextmanager
def _still(block: nn.Module) -> Iterator[None]:
    """Within, no BatchNorm of the block moves its statistics: their momentum is 0, and nothing is counted."""
    moving = [part for part in block.modules() if isinstance(part, _BatchNorm) and part.track_running_stats]
    kept = [(part.momentum, part.num_batches_tracked) for part in moving]
    for part in moving:
        part.momentum, part.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        for part, (momentum, counter) in zip(moving, kept, strict=True):
            part.momentum, part.num_batches_tracked = momentum, counter
