"""What a model costs before it is timed: its parameters, and the work of its products.

    flops = Σ over products of 2 · multiply-adds
    convolution   2·C_out·h·w·(C_in/groups)·k²
    linear        2·C_in·C_out
    attention     2·N·M·(D + E)

Only products count, as papers count them: BatchNorm, activations, softmax and sums are left out. Attention counts
every pair that its kernel computes; a fused kernel is counted as if there were no mask.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from foveal.errors import expect, short_repr


def parameters(model: nn.Module) -> int:
    """How many numbers a model learns; what two parts share counts once."""
    expect(isinstance(model, nn.Module), "the model", "a torch.nn.Module", short_repr(model))
    return sum(parameter.numel() for parameter in model.parameters())


def flops(model: nn.Module, *inputs: Any, **named: Any) -> int:
    """Floating-point operations of one pass in evaluation mode, 2 for each multiply-add of a product."""
    with _watched_run(model), FlopCounterMode(display=False, custom_mapping=_FUSED_ON_CPU) as counter:
        model(*inputs, **named)
    return int(counter.get_total_flops())


@contextmanager
def _watched_run(model: nn.Module) -> Iterator[None]:
    """Evaluation without gradients, in single operations; every part is put back in its own mode."""
    expect(isinstance(model, nn.Module), "the model", "a torch.nn.Module", short_repr(model))
    modes = [(part, part.training) for part in model.modules()]
    fast = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        # torch's own encoder runs as one operation, which would be counted as nothing.
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        torch.backends.mha.set_fastpath_enabled(False)
        stack.enter_context(torch.no_grad())
        model.eval()
        try:
            yield
        finally:
            for part, training in modes:
                part.training = training


def _fused(q: torch.Size, k: torch.Size, v: torch.Size, *_: Any, **__: Any) -> int:
    """Of q (B, H, N, D), k (B, G, M, D) and v (B, G, M, E)."""
    batch, heads, queries, width = q
    return 2 * batch * heads * queries * k[2] * (width + v[3])


# The one attention that torch's counter does not know.
_FUSED_ON_CPU = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _fused}
