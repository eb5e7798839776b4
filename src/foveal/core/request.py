"""A request for attention, checked: what every kernel is handed.

A wrong shape, dtype, device, mask or number is found here, before any kernel, and named in one line.
"""

import math
import sys
from dataclasses import dataclass

import torch
from torch import Tensor

from foveal.core.algebra import Given
from foveal.core.mask import Mask
from foveal.core.pattern.causal import Causal
from foveal.core.term import FLOATS, Term, as_term
from foveal.core.trace import is_tracing
from foveal.errors import FovealError, is_number, short_repr

LARGEST = sys.float_info.max


@dataclass(frozen=True, eq=False)
class Call:
    """One request for attention, checked. mask None: every pair; term None: nothing added to the scores."""

    q: Tensor  # (B, H, N, D)
    k: Tensor  # (B, G, M, D), G divides H
    v: Tensor  # (B, G, M, E)
    mask: Mask | None
    term: Term | None
    scale: float
    dropout: float

    @property
    def native(self) -> bool:
        """Whether the mask is one that every kernel knows by itself."""
        return self.mask is None or isinstance(self.mask, Causal)

    @property
    def grouped(self) -> bool:
        # A branch, so that torch.compile decides it while it traces: a kernel wants a plain bool.
        return True if self.q.shape[1] != self.k.shape[1] else False  # noqa: SIM210

    @property
    def transformed(self) -> bool:
        """Whether torch.func (vmap, grad, jvp) is at work on the tensors."""
        wrapped = torch._C._functorch.is_functorch_wrapped_tensor
        return wrapped(self.q) or wrapped(self.k) or wrapped(self.v)

    @property
    def learns(self) -> bool:
        """Whether a gradient must reach the term's own tensors."""
        return (
            torch.is_grad_enabled()
            and self.term is not None
            and any(tensor.requires_grad for tensor in self.term.tensors)
        )

    def dense_mask(self) -> Tensor | None:
        """The mask written out, (1 or B, 1, N, M), and the written term in it; None if a kernel needs neither."""
        if self.native and self.term is None:
            return None
        dense = None
        if self.mask is not None:
            dense = self.mask.dense(self.q.shape[2], self.k.shape[2], batch=self.q.shape[0], device=self.q.device)
        if self.term is None:
            return dense
        bias = self.term.written(self.q, self.k.shape[2])
        return bias if dense is None else bias.masked_fill(~dense, -torch.inf)


def checked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | Tensor | None,
    bias: Tensor | Term | None,
    scale: float | None,
    dropout: float,
) -> Call:
    """The request, or a FovealError that says what is wrong with it."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        check_tensor(name, tensor, "(B, H, N, D)")
        if tensor.dtype != q.dtype or tensor.device != q.device:
            raise FovealError(f"{name}: expected {q.dtype} on {q.device} as q, got {tensor.dtype} on {tensor.device}")
    # A step of decoding is short, and every look at a shape costs: each is unpacked once.
    (batch, heads, queries, width), (k_batch, groups, keys, k_width), (v_batch, v_groups, v_keys, _) = (
        q.shape,
        k.shape,
        v.shape,
    )
    if k_batch != batch or k_width != width:
        raise FovealError(f"k: expected batch {batch} and width {width} as q {tuple(q.shape)}, got {tuple(k.shape)}")
    if v_batch != batch or v_groups != groups or v_keys != keys:
        raise FovealError(f"v: expected batch, heads and keys {(batch, groups, keys)} as k, got {tuple(v.shape)}")
    if width == 0 or groups == 0 or heads % groups:
        raise FovealError(
            f"k: expected a number of heads that divides q's {heads} heads and a width above 0, got {tuple(k.shape)}"
        )
    if scale is None:
        scale = 1 / math.sqrt(width)
    elif not is_number(scale) or not abs(scale) <= LARGEST:
        raise FovealError(f"scale: expected a finite number, got {short_repr(scale)}")
    check_dropout(dropout)
    if isinstance(mask, Tensor):
        mask = Given(mask)
    if isinstance(mask, Given) and (mask.heads not in (1, heads) or mask.tensor.device != q.device):
        wanted = f"a shape that broadcasts to {(batch, heads, queries, keys)} on {q.device}"
        raise FovealError(f"mask: expected {wanted}, got {tuple(mask.tensor.shape)} on {mask.tensor.device}")
    if mask is not None:
        if not isinstance(mask, Mask):
            raise FovealError(f"mask: expected a mask or a boolean tensor, got {type(mask).__name__}")
        if mask.heads not in (1, heads):
            raise FovealError(f"mask: expected one for all heads, or for {heads} as q has, got one for {mask.heads}")
        mask.check(batch, queries, keys)
        # In a graph it would tie down sizes, or leave the mask out at every other length.
        if not torch.compiler.is_compiling() and not is_tracing() and mask.full(0, queries, keys):
            mask = None
    term = as_term(bias)
    if term is not None:
        if not isinstance(term, Term):
            raise FovealError(f"bias: expected a tensor or a term, got {type(term).__name__}")
        for tensor in term.tensors:
            if tensor.device != q.device:
                raise FovealError(f"bias: expected a tensor on {q.device} as q, got one on {tensor.device}")
        term.check(q, keys)
    return Call(q, k, v, mask, term, scale, dropout)


def check_tensor(name: str, tensor: object, axes: str) -> None:
    if not isinstance(tensor, Tensor):
        raise FovealError(f"{name}: expected a tensor, got {type(tensor).__name__}")
    if tensor.is_nested or tensor.layout is not torch.strided:
        raise FovealError(
            f"{name}: expected a dense tensor, got {'a nested one' if tensor.is_nested else tensor.layout}"
        )
    if tensor.dim() != 4:
        raise FovealError(f"{name}: expected 4 axes {axes}, got shape {tuple(tensor.shape)}")
    if tensor.dtype not in FLOATS:
        raise FovealError(f"{name}: expected a floating dtype of 16, 32 or 64 bits, got {tensor.dtype}")


def check_dropout(dropout: object) -> None:
    if not is_number(dropout) or not 0 <= dropout < 1:  # type: ignore[operator]
        raise FovealError(f"dropout: expected at least 0 and below 1, got {short_repr(dropout)}")
