"""Attention: every query takes a weighted mean of the values, and the scores decide the weights.

    e_ij = q_i·k_j·scale + bias_ij;   α_ij = softmax_j e_ij over the keys that the mask keeps;   y_i = Σ_j α_ij v_j

Symbols: B batch, H heads, G heads of k and v (G divides H), N queries, M keys, D and E widths; scale = 1/√D unless
    given.
Paper: Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz Kaiser, Illia
    Polosukhin (2017). Attention is all you need. NeurIPS. arXiv:1706.03762.
Departs from the paper: a row that may look at nothing yields 0 with finite gradients, where the formula is undefined.
Cost: O(N·M·D) time; O(N·M) memory when the weights are kept (explicit), O(N + M) in a fused kernel.
Example: attend(q, k, v)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, overload

import torch
from torch import Tensor
from torch._C._functorch import TransformType
from torch.autograd import forward_ad

from foveal.core.algebra import Given
from foveal.core.blockwise import by_group, no_autocast
from foveal.core.kernel import KERNELS, Kernel
from foveal.core.mask import Mask
from foveal.core.observe import Look, observers, report
from foveal.core.request import Call, check_dropout, check_tensor, checked
from foveal.core.term import Term
from foveal.core.trace import is_exporting, is_tracing
from foveal.errors import FovealError, unknown


@overload
def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    bias: Tensor | Term | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    weights: Literal[False] = False,
    kernel: str = "auto",
) -> Tensor: ...


@overload
def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    bias: Tensor | Term | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    weights: Literal[True],
    kernel: str = "auto",
) -> tuple[Tensor, Tensor]: ...


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    bias: Tensor | Term | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    weights: bool = False,
    kernel: str = "auto",
) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(q kᵀ·scale + bias) v on (B, H, N, D), (B, G, M, D), (B, G, M, E) → (B, H, N, E).

    With weights=True also α (B, H, N, M).

    mask: True = may look; a pattern of `foveal.mask`, a boolean tensor that broadcasts to (B, H, N, M), or both
        (`causal & tensor`). A pair that it drops has the weight 0, and 0·∞ is NaN: a value that is not finite spoils
        rows that may not look at it, as in torch.
    bias: added to the scores; a floating tensor that broadcasts to (B, H, N, M), or a term that makes it tile by tile.
    dropout: the share of weights dropped, now: a layer passes 0 unless it is training. α comes back before dropout.
    kernel: "auto" takes the fastest that does the job exactly, or the one of a `with foveal.kernel(...)` around; see
        `which`.
    """
    call = checked(q, k, v, mask=mask, bias=bias, scale=scale, dropout=dropout)
    chosen = _choose(call, kernel)
    y = chosen.run(call)
    if observers:
        report(_look(call, chosen.name))
    return (y, weights_of(call)) if weights else y


@contextmanager
def kernel(name: str) -> Iterator[None]:
    """Every attention inside the `with` takes this kernel, in all layers of a model,
    unless its call asks for one itself.

    A graph of torch.compile keeps the kernel of the `with` in which it was compiled.

        with foveal.kernel("explicit"):
            loss = model(x)  # a second derivative of it exists: fused kernels have the first only
    """
    _check_name(name)
    token = _forced.set(name)
    try:
        yield
    finally:
        _forced.reset(token)


def explicit(call: Call) -> Tensor:
    """The twin that anyone can read: scores, softmax, weighted sum. Every other kernel is held equal to it."""
    scores = scores_of(call)
    hidden = call.mask is not None or call.term is not None
    # Where no key is hidden no row is empty: an exported block of ICAM then takes 18 µs instead of 22.
    return _mean(normalise(scores) if hidden else torch.softmax(scores, -1), call.v, call.dropout)


def scores_of(call: Call, rows: Tensor | None = None) -> Tensor:
    """e, with −inf where the mask drops a pair: (B, H, N, M), or only some rows of it."""
    at = torch.arange(call.q.shape[2], device=call.q.device) if rows is None else rows.to(call.q.device)
    q = call.q if rows is None else call.q[:, :, at]
    wide = torch.promote_types(q.dtype, torch.float32)
    keys = torch.arange(call.k.shape[2], device=q.device)
    with no_autocast(q.device.type):
        scores = (by_group(q.to(wide), call.k.shape[1]) @ call.k.to(wide).transpose(-1, -2)) * call.scale
        scores = scores.reshape(*q.shape[:3], call.k.shape[2])
        if call.term is not None:
            scores = scores + call.term.scores(q.to(wide), at, keys, *call.term.tensors)
    if call.mask is not None:
        scores = scores.masked_fill(~call.mask.part(at, keys, call.k.shape[2], batch=q.shape[0]), -torch.inf)
    return scores


def normalise(scores: Tensor) -> Tensor:
    """α = softmax_j e, in at least float32; a row of −inf only becomes a row of 0, and its gradient 0."""
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    empty = (scores == -torch.inf).all(-1, keepdim=True)
    return torch.softmax(scores.masked_fill(empty, 0), -1).masked_fill(empty, 0)


def weigh(scores: Tensor, v: Tensor, *, dropout: float = 0.0) -> Tensor:
    """y = softmax(scores) v for any scores (B, H, N, M), −inf where a key must not be looked at; v is (B, G, M, E)."""
    for name, tensor, axes in (("scores", scores, "(B, H, N, M)"), ("v", v, "(B, G, M, E)")):
        check_tensor(name, tensor, axes)
    batch, heads, _, keys = scores.shape
    if scores.device != v.device or v.shape[0] != batch or v.shape[2] != keys or v.shape[1] == 0 or heads % v.shape[1]:
        raise FovealError(
            f"v: expected ({batch}, G, {keys}, E) on {scores.device} with a G that divides {heads}, got "
            f"{tuple(v.shape)} on {v.device}"
        )
    check_dropout(dropout)
    alpha = normalise(scores)
    if observers:
        report(Look(batch, heads, alpha.shape[2], keys, "explicit", lambda rows: alpha[:, :, rows]))
    return _mean(alpha, v, dropout)


def _mean(alpha: Tensor, v: Tensor, dropout: float) -> Tensor:
    """y = α v: the weighted mean of the values, for all of attention in this one place."""
    kept = torch.dropout(alpha, dropout, train=dropout > 0)
    with no_autocast(v.device.type):
        y = by_group(kept, v.shape[1]) @ v.to(kept.dtype)
    return y.reshape(*alpha.shape[:3], v.shape[3]).to(v.dtype)


def weights_of(call: Call, rows: Tensor | None = None) -> Tensor:
    """α of a call, whichever kernel ran it: (B, H, N, M), or only some rows of it."""
    return normalise(scores_of(call, rows)).to(call.v.dtype)


@dataclass(frozen=True)
class Choice:
    """Which kernel would run, and why; and why each other one would not."""

    kernel: str
    why: str
    others: dict[str, str]

    def __str__(self) -> str:
        lines = [f"{self.kernel}: {self.why}", *(f"  not {name}: {reason}" for name, reason in self.others.items())]
        return "\n".join(lines)


def which(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    bias: Tensor | Term | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Choice:
    """The kernel that `attend` would take for these arguments with kernel="auto", and why."""
    call = checked(q, k, v, mask=mask, bias=bias, scale=scale, dropout=dropout)
    chosen = _choose(call, "auto")
    others = {}
    for kernel in _ALL.values():
        if kernel is not chosen:
            others[kernel.name] = kernel.refuses(call) or kernel.avoided(call) or f"{chosen.name} comes first"
    return Choice(
        chosen.name,
        f"the fastest exact kernel for {'no mask' if call.mask is None else call.mask} on {q.device.type}, {q.dtype}",
        others,
    )


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise FovealError(f"kernel: expected one of {', '.join(['auto', *_ALL])}, got {type(name).__name__}")
    if name != "auto" and name not in _ALL:
        raise unknown("kernel", name, ["auto", *_ALL])


def _choose(call: Call, name: str) -> Kernel:
    _check_name(name)
    if name == "auto":
        name = _kernel_around()
    if torch.compiler.is_compiling() and not is_exporting():
        return _select(call, name)
    if is_exporting() or is_tracing():
        return _ALL["explicit"]  # plain operations, which every exporter knows
    if call.transformed or forward_ad._current_level >= 0:
        return _ALL["explicit"] if name == "auto" and _beyond_first() else _select(call, name)
    # The answer depends on these alone; asking every kernel anew would cost more than a step of decoding.
    known = call.native or isinstance(call.mask, Given)
    mask = type(call.mask) if known else call.mask is not None and call.mask.batched
    kind = mask, None if call.term is None else call.term.kind, call.learns, torch.is_grad_enabled(), call.dropout > 0
    sizes = call.q.shape, call.k.shape, call.v.shape, call.q.stride(), call.k.stride(), call.v.stride()
    key = (name, *sizes, call.q.dtype, call.q.device, call.q.requires_grad, *kind)
    chosen = _chosen.get(key)
    if chosen is None:
        if len(_chosen) >= REMEMBERED:
            _chosen.clear()
        chosen = _chosen[key] = _select(call, name)
    return chosen


def _select(call: Call, name: str) -> Kernel:
    if name == "auto":
        able = None
        for kernel in KERNELS:  # no further than needed: torch.compile traces every question
            if not kernel.refuses(call):
                if not kernel.avoided(call):
                    return kernel
                able = able or kernel
        return able or _ALL["explicit"]
    reason = _ALL[name].refuses(call)
    if reason:
        able_names = [kernel.name for kernel in _ALL.values() if not kernel.refuses(call)]
        raise FovealError(f"kernel {name!r} cannot do this exactly: {reason}; these can: {', '.join(able_names)}")
    return _ALL[name]


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _kernel_around() -> str:
    return _forced.get()


def _beyond_first() -> bool:
    """Whether torch is about to take a derivative that fused kernels do not have: in forward mode,
    or of a derivative.
    """
    if forward_ad._current_level >= 0:
        return True
    stack = torch._C._functorch.get_interpreter_stack() or []
    derivatives = (TransformType.Grad, TransformType.Jvp)
    return sum(interpreter.key() in derivatives for interpreter in stack) > 1


def _look(call: Call, name: str) -> Look:
    return Look(
        call.q.shape[0], call.q.shape[1], call.q.shape[2], call.k.shape[2], name, lambda rows: weights_of(call, rows)
    )


REMEMBERED = 4096  # choices kept, so that a service with ever new sizes does not grow
_forced: ContextVar[str] = ContextVar("kernel", default="auto")
_chosen: dict[tuple[object, ...], Kernel] = {}
_ALL = {kernel.name: kernel for kernel in KERNELS}
_ALL["explicit"] = Kernel("explicit", lambda call: "", lambda call: "it stores all N × M weights", explicit)
