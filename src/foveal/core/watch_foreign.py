"""Seeing inside models that foveal did not write: which layer runs, what it hands to torch's dot product,
and which layers hide.

Whatever calls `torch.nn.functional.scaled_dot_product_attention` is caught by a torch function mode, however it was
imported, and so is `multi_head_attention_forward`, which does without it where weights are asked for. A mode also
keeps torch's encoders off their inference shortcut, whose attention nobody can see.
"""

import inspect
import sys
import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.bias import CausalBias, CausalVariant
from torch.overrides import TorchFunctionMode

from foveal.core.attend import weights_of
from foveal.core.mask import Mask
from foveal.core.observe import Look
from foveal.core.pattern.causal import causal
from foveal.core.request import Call, checked
from foveal.errors import FovealError

_DOT_PRODUCTS = {  # one function, under the names by which eager code and exported graphs call it
    functional.scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention.default,
}
_PLACES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")  # of the dot product's arguments
_MULTI_HEAD = inspect.signature(functional.multi_head_attention_forward)


class Foreign(TorchFunctionMode):
    """Shows every attention that torch computes and foveal did not ask for to `see`.

    Calls `miss` for one that cannot be read.
    """

    def __init__(self, see: Callable[[Look, str], None], miss: Callable[[], None]) -> None:
        super().__init__()
        self.see, self.miss = see, miss

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func is functional.multi_head_attention_forward:
            self._show("multi_head_attention_forward", _inside, args, kwargs)
        elif func in _DOT_PRODUCTS and not _from_foveal():
            self._show("scaled_dot_product_attention", _read, args, kwargs)
        return result

    def _show(self, name: str, read: Callable[..., Call], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            call = read(*args, **kwargs)
        except FovealError:
            self.miss()
            return
        batch, heads, queries, _ = call.q.shape
        self.see(
            Look(batch, heads, queries, call.k.shape[2], name, lambda rows: weights_of(call, rows.to(call.q.device))),
            name,
        )


def _read(*args: Any, **kwargs: Any) -> Call:
    """torch's arguments, by place or by name; the weights need neither the values nor the dropout."""
    given = {**dict(zip(_PLACES, args, strict=False)), **kwargs}
    return call_of(**{name: value for name, value in given.items() if name not in ("value", "dropout_p")})


def call_of(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Call:
    """A call of torch's dot product as one of ours: 4 axes, whatever it had. Tensors without heads get one."""
    if query.is_nested or key.is_nested:
        raise FovealError("query: expected a tensor, got a nested one")
    axes = max(query.dim(), key.dim())
    dtype = torch.promote_types(query.dtype, key.dtype)  # autocast lets them differ
    q, k = _padded(query.to(dtype), axes), _padded(key.to(dtype), axes)
    batch = [multi_label if one == 1 else one for one, multi_label in zip(q.shape[:-3], k.shape[:-3], strict=True)]
    heads = q.shape[-3] if enable_gqa else max(q.shape[-3], k.shape[-3])
    q, k = _flat(q.expand(*batch, heads, *q.shape[-2:])), _flat(k.expand(*batch, *k.shape[-3:]))
    mask: Mask | Tensor | None = causal if is_causal else None
    bias = None
    if isinstance(attn_mask, CausalBias):
        lower = attn_mask.variant == CausalVariant.LOWER_RIGHT
        mask = causal.starting_at(k.shape[2] - q.shape[2]) if lower else causal
    elif attn_mask is not None:
        written = _padded(attn_mask, axes)
        written = _flat(written.expand(*batch, *written.shape[-3:]) if len(batch) > 1 else written)
        if written.dtype != torch.bool:
            bias = written
        else:
            mask = written & causal.dense(q.shape[2], k.shape[2], device=q.device) if is_causal else written
    return checked(q, k, k, mask=mask, bias=bias, scale=None if scale is None else float(scale), dropout=0.0)


def _padded(x: Tensor, axes: int) -> Tensor:
    """(…, N, D) with `axes` axes, and with an axis for the heads: at least (1, 1, N, D)."""
    x = x[(None,) * (axes - x.dim())]
    return x if axes > 3 else x.unsqueeze(-3)[(None,) * (3 - axes)]


def _flat(x: Tensor) -> Tensor:
    return x.reshape(-1, *x.shape[-3:])


def _inside(*args: Any, **kwargs: Any) -> Call:
    """What torch's multi-head attention hands to its dot product: its own code,
    with a stand-in that takes the arguments down.
    """
    given = _MULTI_HEAD.bind(*args, **kwargs).arguments
    if given.get("need_weights", True):
        given["is_causal"] = False  # only a hint then: the mask is what it used
    given["need_weights"] = False
    calls: list[Call] = []

    def stand_in(query: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        calls.append(_read(query, *args, **kwargs))
        return torch.zeros_like(query)

    original = functional.multi_head_attention_forward
    scope = {**vars(functional), "scaled_dot_product_attention": stand_in, "has_torch_function": lambda *_: False}
    FunctionType(original.__code__, scope, argdefs=original.__defaults__)(**given)
    return calls[0]


def _from_foveal() -> bool:
    """Whether foveal's own kernels made the call that a mode is handling: `attend` reports those itself."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_name in ("_from_foveal", "__torch_function__"):
        frame = frame.f_back  # other modes may stand between
    return str(frame.f_globals.get("__name__")).startswith("foveal.core.")


class Layers:
    """The layers of a model, by path: which of them runs now, which ran, and which hid an attention."""

    def __init__(self, model: nn.Module | None) -> None:
        named = [] if model is None else list(model.named_modules())
        self.modules = {_plain(path): module for path, module in named}
        self.running: list[str] = []  # from the outermost to the innermost
        self.ran: dict[str, None] = {"": None} if isinstance(model, torch.jit.ScriptModule) else {}  # an ordered set
        self.thread = threading.get_ident()
        self._hooked = [
            (_plain(path), module) for path, module in named if not isinstance(module, torch.jit.ScriptModule)
        ]

    @property
    def here(self) -> bool:
        """Whether this is the thread that watches: what another one runs cannot be told apart."""
        return threading.get_ident() == self.thread

    def name(self, path: str) -> str:
        """The path; for the model itself, its class."""
        return path or self.kind(path)

    def kind(self, path: str) -> str:
        return _kind(self.modules[path])

    def hook(self, stack: ExitStack) -> None:
        """Follow the layers until the stack closes."""
        for path, module in self._hooked:
            stack.callback(module.register_forward_pre_hook(partial(self._start, path), prepend=True).remove)
            stack.callback(module.register_forward_hook(partial(self._end, path), always_call=True).remove)

    def _start(self, path: str, *_: object) -> None:
        if self.here:
            self.running.append(path)
            self.ran[path] = None

    def _end(self, path: str, *_: object) -> None:
        if self.here and path in self.running:
            while self.running.pop() != path:  # layers inside it that raised
                pass

    def unseen(self, looked: Collection[str]) -> list[str]:
        """The paths of attention layers that ran, innermost ones, from which nothing was seen."""
        found = [path for path, module in self.modules.items() if self._attends(path, module)]
        innermost = [path for path in found if not any(_within(other, path) for other in found if other != path)]
        return [path for path in innermost if not any(self._covers(path, seen) for seen in looked)]

    def _attends(self, path: str, module: nn.Module) -> bool:
        if isinstance(
            module, torch.jit.ScriptModule
        ):  # takes no hooks: it ran if what holds it ran, as far as one can tell
            ran = any(_within(path, outer) for outer in self.ran)
            return ran and (
                "scaled_dot_product_attention" in str(getattr(module, "inlined_graph", "")) or _holds_attention(module)
            )
        if isinstance(module, nn.DataParallel) and len(module.device_ids) > 1:
            return path in self.ran and _holds_attention(module)
        return path in self.ran and _is_attention(module)

    def _covers(self, path: str, seen: str) -> bool:
        """Whether what was seen at one path is the attention of this one: inside it, or it is a helper of that one."""
        return _within(seen, path) or (_within(path, seen) and _is_attention(self.modules[seen]))


def advice(module: nn.Module) -> str:
    """What to do about a layer that cannot be seen."""
    if isinstance(module, torch.jit.ScriptModule):
        return "watch the model from before torch.jit"
    if isinstance(module, nn.DataParallel):
        return "watch and run the .module inside DataParallel"
    return (
        'build the model with attn_implementation="sdpa" (transformers), or call foveal.attend or torch\'s '
        "scaled_dot_product_attention"
    )


def _is_attention(module: nn.Module) -> bool:
    """By its name, as layers of other libraries say no more; foveal's own report by themselves."""
    name = _kind(module).lower()
    return ("attention" in name or "attn" in name) and not type(module).__module__.startswith("foveal.")


def _kind(module: nn.Module) -> str:
    return str(getattr(module, "original_name", type(module).__name__))  # torch.jit hides the class


def _holds_attention(module: nn.Module) -> bool:
    return any(_is_attention(inner) for inner in module.modules())


def _within(path: str, outer: str) -> bool:
    return path == outer or not outer or path.startswith(f"{outer}.")


def _plain(path: str) -> str:
    """A layer's path without what torch.compile puts in."""
    return ".".join(part for part in path.split(".") if part != "_orig_mod")
