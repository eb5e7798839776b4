"""The module under examination, in one form: tokens (B, N, C) in, tokens (B, N, ·) out, whatever its own signature is.

A function on heads becomes the same thing: its tokens are q, k and v side by side, C = 3·H·D.
"""

import copy
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from foveal.explain.diagnosis.noise import Quiet

# somebody's module may raise anything at all when something does not fit
REFUSALS: tuple[type[Exception], ...] = (Exception,)

LAYOUTS = {  # what the tensors of a call look like
    "bnc": "tokens (B, N, C)",
    "nbc": "tokens (N, B, C)",
    "bhnd": "heads (B, H, N, D)",
    "bnhd": "heads (B, N, H, D)",
}


@dataclass(frozen=True)
class Sizes:
    batch: int
    tokens: int
    width: int  # of the normal form's tokens
    heads: int | None  # None: not known


@dataclass(frozen=True)
class Subject:
    """How one module is called.

    `feed` turns tokens into its arguments; `always` are arguments that it needs besides.
    """

    target: Callable[..., Any]
    name: str
    signature: str
    documentation: str
    layout: str
    sizes: Sizes
    dtype: torch.dtype  # float64 where it can be
    own: torch.dtype  # what it was given to us in
    device: torch.device
    feed: Callable[[Tensor, Tensor], Mapping[str, Any]]  # (tokens that ask, tokens that are looked at) → arguments
    arguments: frozenset[str]  # the names that it takes
    required: frozenset[str] = frozenset()
    always: Mapping[str, Any] = field(default_factory=dict)
    two_sources: bool = False  # queries and keys come as different arguments
    adapter: Callable[..., Any] | None = None  # (module, x, mask) → output, from the user
    quiet: bool = False  # dropout that it wrongly applies is taken out, so that the rest can be measured

    @property
    def tolerance(self) -> float:
        """Below this, relative to the size of the output, two results are the same."""
        # many take their softmax in float32 whatever they are given
        return 1e-6 if self.dtype == torch.float64 else 1e-4

    @property
    def module(self) -> nn.Module | None:
        return self.target if isinstance(self.target, nn.Module) else None

    @property
    def on_heads(self) -> bool:
        return self.layout in ("bhnd", "bnhd")

    def as_given(self) -> "Subject":
        """The same in its own type: a mask's least number, say, is another in float64."""
        if self.module is None:
            return replace(self, dtype=self.own)
        return replace(self, target=copy.deepcopy(self.module).to(self.own), dtype=self.own)

    def copied(self) -> "Subject":
        return replace(self, target=copy.deepcopy(self.target))

    def sample(self, seed: int = 0) -> Tensor:
        """Random tokens (B, N, C)."""
        generator = torch.Generator().manual_seed(seed)
        shape = self.sizes.batch, self.sizes.tokens, self.sizes.width
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(self.dtype).to(self.device)

    def raw(
        self, x: Tensor, extra: Mapping[str, Any] | None = None, *, source: Tensor | None = None, seed: int = 0
    ) -> Any:
        """What the module itself answers to these tokens, which look at themselves or at a source.

        `extra` are further arguments.
        """
        extra = extra or {}
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices), warnings.catch_warnings(), Quiet() if self.quiet else nullcontext():
            warnings.simplefilter("ignore")
            torch.default_generator.manual_seed(seed)
            if devices:
                torch.cuda.manual_seed(seed)
            if self.adapter is not None:
                return settled(self.adapter(self.target, x, extra.get("mask")))
            return settled(self.target(**{**self.always, **self.feed(x, x if source is None else source), **extra}))

    def run(
        self,
        x: Tensor,
        extra: Mapping[str, Any] | None = None,
        *,
        source: Tensor | None = None,
        seed: int = 0,
        grad: bool = False,
    ) -> Tensor:
        """The output for tokens (B, n, C) as (B, n, ·)."""
        with torch.set_grad_enabled(grad):
            return self.output(self.raw(x, extra, source=source, seed=seed), x.shape[1])

    def run_with_other_key(
        self, x: Tensor, other: Tensor, token: int, extra: Mapping[str, Any] | None = None
    ) -> Tensor:
        """The output when one token that is looked at is another.

        As a query it stays, where the module can tell these apart.
        """
        changed = x.clone()
        changed[:, token] = other[:, token]
        return self.run(x, extra, source=changed) if self.two_sources else self.run(changed, extra)

    def output(self, answer: Any, tokens: int) -> Tensor:
        """The tensor (B, tokens, ·) in an answer; a TypeError if there is none."""
        batch = self.sizes.batch
        for tensor in tensors_in(answer):
            shape = tuple(tensor.shape)
            if self.layout == "bnc" and len(shape) == 3 and shape[:2] == (batch, tokens):
                return tensor
            if self.layout == "nbc" and len(shape) == 3 and shape[:2] == (tokens, batch):
                return tensor.transpose(0, 1)
            if self.layout == "bhnd" and len(shape) == 4 and (shape[0], shape[2]) == (batch, tokens):
                return tensor.transpose(1, 2).flatten(2)
            if self.layout == "bnhd" and len(shape) == 4 and shape[:2] == (batch, tokens):
                return tensor.flatten(2)
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors_in(answer)) or type(answer).__name__
        raise TypeError(f"it answers {LAYOUTS[self.layout]} of {batch} × {tokens} with {shapes}")


def in_a_line(error: BaseException | None, length: int = 200) -> str:
    """What was raised, on one line."""
    try:
        text = " ".join(str(error).split())[:length]
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  # its text is somebody's code, too
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def settled(answer: Any) -> Any:
    """An answer that is there, not one that has to be awaited: a TypeError for a coroutine,
    which is closed so that Python does not complain.
    """
    if inspect.iscoroutine(answer):
        answer.close()
        raise TypeError("it is an async def, whose answer is a coroutine: expected a plain def")
    return answer


def tensors_in(answer: Any) -> Iterator[Tensor]:
    """The tensors of an answer, in order: a tensor, a tuple, a dictionary, or an output object of these."""
    if isinstance(answer, Tensor):
        yield answer
    elif isinstance(answer, Mapping):
        for part in answer.values():
            yield from tensors_in(part)
    elif isinstance(answer, tuple | list):
        for part in answer:
            yield from tensors_in(part)


def largest_change(before: Tensor, after: Tensor, tolerance: float = 0.0) -> float:
    """max|before − after|, 0 where that is within the tolerance.

    A NaN that stays is no change, one that comes or goes is inf.
    """
    if before.numel() == 0:
        return 0.0
    difference = (before - after).detach().abs()
    lost = before.isnan() & after.isnan()
    difference = difference.masked_fill(lost, 0).nan_to_num(nan=torch.inf, posinf=torch.inf)
    largest = float(difference.max())
    size = float(before.detach().nan_to_num(0, 0, 0).abs().max())
    return 0.0 if largest <= tolerance * max(size, 1e-3) else largest
