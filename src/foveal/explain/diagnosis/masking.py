"""Which way round a module reads its mask, found out by perturbation: what is hidden must not matter,
what is visible must.

    hide token j from everybody
    a = max|y(x) − y(x with another token j)|,   b = the same for a token that stays visible
    read rightly a = 0 < b;   read the wrong way round a > 0 = b;   not applied a, b > 0

An argument's type and shape are not known beforehand: all that are in use are tried, until one is read clearly.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from foveal.explain.diagnosis.names import MASKS, PADDING
from foveal.explain.diagnosis.subject import REFUSALS, Subject, largest_change

Meaning = Literal["look", "hide"]

HIDDEN, VISIBLE = 1, 0  # tokens; the rows after them see both, causal or not

# keep (B, N, M) → the shape that an argument wants, for so many heads
_SHAPES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "(N, M)": lambda keep, _: keep[0],
    "(B, N, M)": lambda keep, _: keep,
    "(B, 1, N, M)": lambda keep, _: keep[:, None],
    "(B, H, N, M)": lambda keep, heads: keep[:, None].expand(-1, heads, -1, -1),
    "(B·H, N, M)": lambda keep, heads: keep.repeat_interleave(heads, 0),
    "(B, M)": lambda keep, _: keep[:, 0],
    "(B, 1, M)": lambda keep, _: keep[:, :1],
    "(B, 1, 1, M)": lambda keep, _: keep[:, None, :1],
}
_KINDS = ("boolean", "integer", "0 or 1", "additive")


@dataclass(frozen=True)
class Form:
    """A way in which one argument takes masks, and how it reads them."""

    argument: str
    shape: str
    kind: str
    heads: int
    dtype: torch.dtype
    means: Meaning = "look"  # what True (or 1) does; an additive mask is −inf where hidden, either way
    hidden: float = 0.0  # how far the output moves with a hidden token
    visible: float = 0.0  # and with a visible one
    least: float = -torch.inf  # what an additive mask adds where hidden

    @property
    def pairwise(self) -> bool:
        """Whether each query has its own mask."""
        return "N" in self.shape

    def make(self, keep: Tensor) -> Tensor:
        """The mask for keep (B, N, M), True = may look, as this argument reads it."""
        mask = (
            _SHAPES[self.shape](keep if self.means == "look" or self.kind == "additive" else ~keep, self.heads)
            .contiguous()
            .clone()
        )
        if self.kind == "boolean":
            return mask
        if self.kind == "additive":
            return torch.zeros(mask.shape, dtype=self.dtype, device=mask.device).masked_fill(~mask, self.least)
        return mask.to(torch.long if self.kind == "integer" else self.dtype)


@dataclass(frozen=True)
class Reading:
    """What became of one argument: the form that it takes, or why there is none."""

    argument: str
    form: Form | None
    moved: tuple[float, float] | None = (
        None  # by a hidden and by a visible token, where a mask is taken but hides nothing
    )
    idle: bool = False  # the mask changes nothing at all
    trouble: str = ""  # the first refusal


def mask_arguments(subject: Subject) -> list[str]:
    return ["mask"] if subject.adapter is not None else [name for name in MASKS if name in subject.arguments]


def read(subject: Subject, argument: str) -> Reading:
    """Try every kind and shape of mask, until one is read clearly."""
    shapes = (
        ["(N, M)"]
        if subject.adapter is not None
        else sorted(_SHAPES, key=lambda shape: ("N" in shape) == (argument in PADDING))
    )
    kinds = ("boolean",) if subject.adapter is not None else _KINDS
    trouble, moved, idle = "", None, True
    for kind in kinds:
        for shape in shapes:
            form = Form(argument, shape, kind, subject.sizes.heads or 1, subject.dtype)
            try:
                hidden, visible, changed = _movements(subject, form)
            except REFUSALS as error:
                trouble = trouble or " ".join(str(error).split())[:160]
                continue
            if hidden == 0 < visible:
                return Reading(argument, replace(form, hidden=hidden, visible=visible))
            if visible == 0 < hidden and kind != "additive":
                return Reading(argument, replace(form, means="hide", hidden=visible, visible=hidden))
            moved, idle = moved or (hidden, visible), idle and not changed
    return Reading(argument, None, moved, moved is not None and idle, trouble)


def _movements(subject: Subject, form: Form) -> tuple[float, float, bool]:
    """How far the rows that see both move with the hidden token and with the visible one,
    and whether the mask changes anything.
    """
    x, other = subject.sample(0), subject.sample(1)
    keep = torch.ones(len(x), x.shape[1], x.shape[1], dtype=torch.bool, device=x.device)
    everything = form.make(keep)
    keep[:, :, HIDDEN] = False
    hiding = {form.argument: form.make(keep)}
    rows = slice(max(HIDDEN, VISIBLE) + 1, None)
    before = subject.run(x, hiding)[:, rows]
    by_hidden, by_visible = (
        largest_change(before, subject.run_with_other_key(x, other, token, hiding)[:, rows], subject.tolerance)
        for token in (HIDDEN, VISIBLE)
    )
    effect = largest_change(before, subject.run(x, {form.argument: everything})[:, rows])
    return by_hidden, by_visible, effect > 0


def promised(subject: Subject, argument: str) -> tuple[Meaning, str]:
    """What True means by the class, the documentation or the argument's name, and which of these says so."""
    if isinstance(subject.target, nn.MultiheadAttention | nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
        return "hide", "torch documents True = hidden for this class"
    stated = _stated(subject.documentation, argument)
    if len(stated) == 1:
        (meaning, sentence), *_ = stated.items()
        return meaning, f"its documentation says {sentence!r}"
    if argument in PADDING:
        return "hide", f"a {argument} marks padding, as in torch"
    return "look", "True = may look, as in torch's scaled_dot_product_attention"


def _stated(documentation: str, argument: str) -> dict[Meaning, str]:
    """The meanings of True that sentences about this argument give, each with its sentence."""
    stated: dict[Meaning, str] = {}
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*\w+\s*(?:\([^)]*\))?\s*:)", documentation):
        text = " ".join(paragraph.split())
        for found in re.finditer(r"\bTrue\b[^.;]*", text) if re.search(rf"\b{argument}\b", text) else ():
            words = re.sub(r"\bunmasked|\bnot (masked|hidden|padd\w*|ignored)", "visible", found[0])
            if re.search(r"\b(hid|mask(ed|ing|s)?\b|ignor|pad|block|exclu|not\b|cannot|never)", words):
                stated.setdefault("hide", found[0][:80])
            elif re.search(r"\b(look|attend|keep|kept|visible|allow|take|part)", words):
                stated.setdefault("look", found[0][:80])
    return stated
