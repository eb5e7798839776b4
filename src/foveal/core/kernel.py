"""The fused kernels: what each can do, and how it is called. `attend` asks them in order and takes the first that fits.

    y = softmax(q kᵀ·scale + term, over the keys that the mask keeps) v

A kernel says in words why it refuses a call (it cannot do it exactly), and why it is avoided (another is faster or
smaller).
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from foveal.core.algebra import Given
from foveal.core.blockwise import blockwise
from foveal.core.flex import flex, has_triton
from foveal.core.mask import Mask
from foveal.core.pattern.causal import Causal
from foveal.core.relative import RelativeTerm
from foveal.core.request import Call
from foveal.core.term import Term, Written

# Up to so many pairs a dense mask is cheaper than walking through tiles; where the samples of a batch
# differ, tiles must be masked one by one, and win later.
SMALL = {"cpu": 2**14, "cuda": 2**16}
SMALL_BATCHED = 2**20
VECTOR = 16  # numbers in the widest vector of a processor: AVX-512, float32


@dataclass(frozen=True)
class Kernel:
    name: str
    refuses: Callable[[Call], str]  # why it cannot do the call; "" if it can
    avoided: Callable[[Call], str]  # why another is better; "" if none is
    run: Callable[[Call], Tensor]


def _sdpa(call: Call, mask: Tensor | None) -> Tensor:
    q, k, v = call.q, call.k, call.v
    only_causal = isinstance(call.mask, Causal) and call.term is None
    batch, heads, queries, width = q.shape
    if queries == 1 and call.grouped and not only_causal and (mask is None or mask.shape[1] == 1):
        # One query a head: heads that share keys become rows of one head, so each key is read once for all of them.
        groups = k.shape[1]
        rows = q.reshape(batch, groups, heads // groups, width)
        y = F.scaled_dot_product_attention(rows, k, v, mask, call.dropout, scale=call.scale)
        return y.reshape(batch, heads, 1, v.shape[3])
    return F.scaled_dot_product_attention(
        q, k, v, mask, call.dropout, is_causal=only_causal, scale=call.scale, enable_gqa=call.grouped
    )


def _on_backend(backend: SDPBackend) -> Callable[[Call], Tensor]:
    # In a graph torch cannot be asked what a backend takes (`_asked`), so it gets a choice. Flash has no mask to be
    # inexact with: there torch may take any, and takes cuDNN where that is faster.
    in_graph: list[SDPBackend] = [] if backend == SDPBackend.FLASH_ATTENTION else [backend, SDPBackend.MATH]

    def run(call: Call) -> Tensor:
        mask = in_rows(call.dense_mask())
        if torch.compiler.is_compiling():
            with sdpa_kernel(in_graph) if in_graph else nullcontext():
                return _sdpa(call, mask)
        if _torchs_choice(call, mask) == backend:
            return _sdpa(call, mask)  # torch would take it by itself: no need to pay for the context
        with sdpa_kernel([backend]):
            return _sdpa(call, mask)

    return run


def in_rows(mask: Tensor | None) -> Tensor | None:
    """The mask with the keys of a query side by side in memory, as a GPU's kernels read it: torch refuses others."""
    return mask if mask is None or mask.stride(3) == 1 else mask.contiguous()


def _torchs_choice(call: Call, mask: Tensor | None) -> SDPBackend:
    only_causal = mask is None and isinstance(call.mask, Causal)
    number = torch._fused_sdp_choice(
        call.q, call.k, call.v, mask, call.dropout, only_causal, scale=call.scale, enable_gqa=call.grouped
    )
    return SDPBackend(number)


def _run_flash(call: Call) -> Tensor:
    if call.q.device.type != "cpu":
        return _on_backend(SDPBackend.FLASH_ATTENTION)(call)
    mask = call.dense_mask()
    y = _sdpa(call, mask)
    return y if mask is not None else _with_nan(y, call.q, call.k.shape[2])


def _with_nan(y: Tensor, q: Tensor, keys: int) -> Tensor:
    """NaN in the rows whose query is NaN. torch's CPU kernel finds the largest score of the keys that fill no vector
    by comparisons, in which NaN loses to −∞; with no other keys the row then counts as one that may look at nothing,
    and becomes 0.
    """
    if keys == 0 or (
        keys >= VECTOR and not torch.compiler.is_compiling()
    ):  # compiled, a look at the size would cost another graph
        return y
    largest = (q.detach() if q.requires_grad else q).amax(-1, keepdim=True)  # (B, H, N, 1), NaN where the query is
    return y.add(largest, alpha=0)  # 0·∞ is NaN, too, and so are the scores of a query that is not finite


def _refuses_term(call: Call) -> str:
    if call.term is not None and type(call.term).written is Term.written:
        return f"it cannot compute {type(call.term).__name__}'s term"
    return ""


def _refuses_flash(call: Call) -> str:
    if call.q.device.type == "cpu":
        if call.learns:
            return "it gives no gradient to a bias"
        if call.dropout:
            return "it has no dropout on a CPU"
        if call.v.shape[3] != call.q.shape[3]:
            return (
                f"it needs values as wide as keys on a CPU, and these are {call.v.shape[3]} and {call.q.shape[3]} wide"
            )
        if any(tensor.stride(3) != 1 for tensor in (call.q, call.k, call.v)):
            return "it needs tensors whose last axis lies together in memory"
        return _refuses_term(call)
    if call.mask is not None and not call.native:
        return f"it knows no mask but causal, and this is {_named(call.mask)}"
    if call.term is not None:
        return "it takes no bias"
    return _asked(torch.backends.cuda.can_use_flash_attention, call)


def _refuses_cudnn(call: Call) -> str:
    if call.q.device.type != "cuda":
        return "it needs an NVIDIA GPU"
    if call.mask is not None and not call.native:
        return f"its answer for a row that sees nothing is not 0, and this is {_named(call.mask)}"
    if call.term is not None:
        return "it is used without a bias here"
    if torch.compiler.is_compiling():
        return "torch.compile cannot ask for it; in flash's place torch takes it by itself"
    return _asked(torch.backends.cuda.can_use_cudnn_attention, call)


def _named(mask: Mask | None) -> str:
    """A mask in words. In a graph nobody reads them, and the repr of a dataclass would break it."""
    return "another" if torch.compiler.is_compiling() else repr(mask)


def _refuses_efficient(call: Call) -> str:
    if call.q.device.type != "cuda":
        return "it needs an NVIDIA GPU"
    return _refuses_term(call) or _asked(torch.backends.cuda.can_use_efficient_attention, call)


def _asked(can_use: Callable[..., bool], call: Call) -> str:
    """torch's own word on whether a backend takes these tensors."""
    if isinstance(call.mask, Causal) and call.q.shape[2] != call.k.shape[2]:
        return "its causal mask ends at the last key, ours begins at the first, and N ≠ M"
    if torch.compiler.is_compiling():  # the question would break the graph in two, at every attention of a model
        return ""
    parameters = torch.backends.cuda.SDPAParams(
        call.q, call.k, call.v, None, call.dropout, isinstance(call.mask, Causal), call.grouped
    )
    return "" if can_use(parameters) else f"torch refuses {call.q.dtype} of width {call.q.shape[3]} for it"


def _too_large(call: Call) -> str:
    if call.native and call.term is None:
        return ""
    compiling = torch.compiler.is_compiling()
    if compiling and (call.term is None or isinstance(call.term, Written)):
        return ""  # a look at the sizes would cost another graph; a term that is not written has looked already
    pairs, limit = call.q.shape[2] * call.k.shape[2], SMALL.get(call.q.device.type, SMALL_BATCHED)
    windows = isinstance(call.mask, Given) and call.q.device.type == "cuda"  # many small samples, whose mask is stored
    if (compiling or windows) and pairs <= limit:
        return ""
    if call.mask is not None and call.mask.batched:
        pairs, limit = pairs * call.q.shape[0], SMALL_BATCHED
    return f"a dense mask of {pairs:,} pairs would be stored" if pairs > limit else ""


def _never(call: Call) -> str:
    return ""


def _refuses_flex(call: Call) -> str:
    if call.q.device.type == "cpu":
        return "it has no backward pass on a CPU, and blocks is faster there"
    if not has_triton():
        return "Triton is not installed"
    if call.dropout:
        return "it has no dropout"
    if call.q.dtype == torch.float64:
        return "it has no float64"
    if call.q.shape[2] < 128:
        return f"its kernel for fewer than 128 queries refuses many sizes, and these are {call.q.shape[2]}"
    if call.q.shape[3] < 16 or call.v.shape[3] < 16:
        return f"it needs heads at least 16 wide, and these are {call.q.shape[3]} and {call.v.shape[3]}"
    if call.term is not None and type(call.term).score_mod is Term.score_mod:
        return f"{type(call.term).__name__} has no form for it"
    return ""


def _run_flex(call: Call) -> Tensor:
    score_mod = call.term.score_mod(call.q) if call.term is not None else None
    return flex(call.q, call.k, call.v, mask=call.mask, score_mod=score_mod, kind=type(call.term), scale=call.scale)


def _refuses_skew(call: Call) -> str:
    if not isinstance(call.term, RelativeTerm):
        return "it is for relative positions, and there are none"
    if call.q.device.type != "cuda" or not has_triton():
        return "it needs an NVIDIA GPU with Triton"
    if torch.compiler.is_compiling():
        return "torch.compile does not see through it"
    if not call.native:
        return f"it knows no mask but causal, and this is {call.mask!r}"
    if call.dropout:
        return "it has no dropout"
    if call.term.start:
        return "its queries begin at position 0"
    width = call.q.shape[3]
    if call.v.shape[3] != width or width not in (16, 32, 64, 128) or call.q.dtype == torch.float64:
        return f"it has no {call.q.dtype} of width {width} and {call.v.shape[3]}"
    return ""


def _run_skew(call: Call) -> Tensor:
    from foveal.core._relative_triton import relative

    assert isinstance(call.term, RelativeTerm)
    (table,) = call.term.tensors
    causal = isinstance(call.mask, Causal)
    y: Tensor = relative(call.q, call.k, call.v, table, scale=call.scale, table_scale=call.term.scale, causal=causal)
    return y


def _run_blocks(call: Call) -> Tensor:
    return blockwise(call.q, call.k, call.v, mask=call.mask, term=call.term, scale=call.scale, dropout=call.dropout)


def _refuses_blocks(call: Call) -> str:
    if torch.compiler.is_compiling():
        return "its loop over tiles would be unrolled by torch.compile"
    if call.transformed:
        return "it has no rule for torch.func"
    if isinstance(call.term, Written) and call.learns:
        return "it would sum a gradient as large as the bias for every tile"
    return ""


def _flex_avoided(call: Call) -> str:
    return "" if max(call.q.shape[2], call.k.shape[2]) >= 256 else "below 256 tokens a dense mask is faster"


KERNELS = [  # in the order in which `auto` asks them
    Kernel("cudnn", _refuses_cudnn, _never, _on_backend(SDPBackend.CUDNN_ATTENTION)),
    Kernel("flash", _refuses_flash, _too_large, _run_flash),
    Kernel("efficient", _refuses_efficient, _too_large, _on_backend(SDPBackend.EFFICIENT_ATTENTION)),
    Kernel("skew", _refuses_skew, _never, _run_skew),
    Kernel("flex", _refuses_flex, _flex_avoided, _run_flex),
    Kernel("blocks", _refuses_blocks, _never, _run_blocks),
]
