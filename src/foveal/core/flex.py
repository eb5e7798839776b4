"""FlexAttention, compiled for one kind of call at a time: masks become blocks that are skipped,
terms become a score_mod.

    y = softmax(score_mod(q kᵀ·scale), over the blocks that the mask keeps) v

Paper: Juechu Dong, Boyuan Feng, Driss Guessous, Yanbo Liang, Horace He (2024). Flex attention: a programming model for
generating optimized attention kernels. arXiv:2412.05496.
"""

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from foveal.core.keep_alive import keep
from foveal.core.mask import Mask

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask


def flex(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | None,
    score_mod: Callable[..., Tensor] | None,
    kind: type,
    scale: float,
) -> Tensor:
    """(B, H, N, D), (B, G, M, D), (B, G, M, E) → (B, H, N, E); `kind` is whatever made the score_mod."""
    from torch.nn.attention.flex_attention import flex_attention

    compiling = torch.compiler.is_compiling()
    blocks = None
    if mask is not None:
        if mask.batched or compiling:
            blocks = mask.block_mask(q.shape[2], k.shape[2], batch=q.shape[0], device=q.device)
        else:
            blocks = keep(_block_mask(mask, q.shape[2], k.shape[2], q.device))
    pattern = "batch" if mask is not None and mask.batched else mask
    run: Any = flex_attention if compiling else _compiled((pattern, kind, q.shape, k.shape, v.shape, q.dtype, q.device))
    y: Tensor = run(q, k, v, score_mod=score_mod, block_mask=blocks, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
    return y


@lru_cache(maxsize=1)
def has_triton() -> bool:
    return find_spec("triton") is not None


@lru_cache(maxsize=64)
def _block_mask(mask: Mask, queries: int, keys: int, device: torch.device) -> "BlockMask":
    with torch.inference_mode(False):  # what is made while inferring must serve when training
        return mask.block_mask(queries, keys, device=device)


@lru_cache(maxsize=64)
def _compiled(key: object) -> Callable[..., Tensor]:
    """FlexAttention compiled for one kind of call.

    Dynamo keeps what it compiled with the code object, tries the entries one after the other, and after eight of them
    falls back to an uncompiled FlexAttention, which stores N × M scores. So each kind of call gets a code object of
    its own.
    """
    from torch.nn.attention.flex_attention import flex_attention

    def run(*arguments: Any, **options: Any) -> Any:
        return flex_attention(*arguments, **options)

    own = FunctionType(run.__code__.replace(), run.__globals__, "flex", run.__defaults__, run.__closure__)
    # `watch` switches torch.compile off to see inside; this stays on, as an uncompiled one would store N × M scores.
    compiled: Callable[..., Tensor] = torch.compiler.set_stance("default")(torch.compile(own, dynamic=False))
    return compiled
