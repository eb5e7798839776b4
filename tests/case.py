"""Every entry of the catalogue as one thing that can be run: a module, its inputs, and the same in plain loops.

An oracle file `oracle/NAME.py` has a function NAME. A mask's takes the mask's own parameters, and queries= and keys=; a function's takes
the function's arguments as nested lists; beside a layer's or a position's stands `like(module, *inputs)`, which reads the module's weights
with `.tolist()` and calls it.
"""

import ast
import copy
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from foveal.app.catalogue import Entry, entries, run_example, samples
from foveal.core.attend import attend
from foveal.core.mask import Mask
from foveal.errors import FovealError


@dataclass
class Case:
    name: str
    module: nn.Module
    inputs: tuple[Any, ...]
    loops: Callable[[], Any]  # nested lists, in float64
    takes_mask: bool

    def double(self) -> tuple[nn.Module, tuple[Any, ...]]:
        return copy.deepcopy(self.module).double(), cast(self.inputs, torch.float64)


def cases() -> list[Entry]:
    return list(entries())


def case(entry: Entry) -> Case:
    stem = entry.module.rpartition(".")[2]
    oracle = importlib.import_module(f"oracle.{stem}")
    expression = ast.parse(entry.example, mode="eval").body
    names = {**vars(importlib.import_module(entry.module)), **samples()}
    ran = run_example(entry)
    if isinstance(ran.output, Mask):
        return _mask_case(entry.name, ran.output, getattr(oracle, stem), expression, names)
    if ran.module is None:
        function, inputs = names[expression.func.id], tuple(_value(a, names) for a in expression.args)
        options = {word.arg: _value(word.value, names) for word in expression.keywords}
        loops = getattr(oracle, "like", None) or getattr(oracle, stem)
        return Case(
            entry.name, Function(function, options), inputs, lambda: loops(*lists(cast(inputs, torch.float64)), **options), False
        )
    method = expression.func.attr if isinstance(expression.func, ast.Attribute) else "forward"
    module = ran.module if method == "forward" and not ran.options else Method(ran.module, method, ran.options)
    takes_mask = method == "forward" and "mask" in inspect.signature(ran.module.forward).parameters
    double = copy.deepcopy(ran.module).double()
    inputs = cast(ran.inputs, torch.float64)
    return Case(entry.name, module.eval(), ran.inputs, lambda: oracle.like(double, *inputs, **ran.options), takes_mask)


def _mask_case(name: str, mask: Mask, oracle: Callable[..., Any], expression: ast.expr, names: dict[str, Any]) -> Case:
    size = 37
    try:
        mask.check(3, size, size)
    except FovealError:
        size = 36  # a grid of 6 × 6
    generator = torch.Generator().manual_seed(0)
    inputs = tuple(torch.randn(3, 2, size, 8, generator=generator) for _ in range(3))
    given, options = [], {}
    if isinstance(expression, ast.Call):
        given = [_value(a, names) for a in expression.args]
        options = {word.arg: _value(word.value, names) for word in expression.keywords}

    def loops() -> Any:
        attention = importlib.import_module("oracle.attend").attend
        kept = oracle(*given, **options, queries=size, keys=size)
        if not mask.batched:
            kept = [kept] * 3
        return [
            [attention(*(lists((x[b, h].double(),))[0] for x in inputs), mask=kept[b]) for h in range(2)] for b in range(3)
        ]

    return Case(name, Masked(mask), inputs, loops, False)


class Masked(nn.Module):
    def __init__(self, mask: Mask) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, mask=self.mask)


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__()
        self.function, self.options = function, options

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs, **self.options)


class Method(nn.Module):
    def __init__(self, module: nn.Module, method: str, options: dict[str, Any]) -> None:
        super().__init__()
        self.inner, self.method, self.options = module, method, options

    def forward(self, *inputs: Any) -> Any:
        return getattr(self.inner, self.method)(*inputs, **self.options)


def cast(values: tuple[Any, ...], dtype: torch.dtype) -> tuple[Any, ...]:
    return tuple(value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value for value in values)


def lists(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value.tolist() if isinstance(value, Tensor) else value for value in values)


def tensors(output: Any) -> list[Tensor]:
    """The tensors of an output, whatever it is wrapped in."""
    if isinstance(output, Tensor):
        return [output]
    if isinstance(output, dict):
        output = list(output.values())
    return [tensor for part in output for tensor in tensors(part)] if isinstance(output, (tuple, list)) else []


def error(output: Any, reference: Any) -> float:
    """The largest difference; a shape that differs is no answer at all."""
    mine, other = tensors(output), tensors(reference)
    assert [tuple(t.shape) for t in mine] == [tuple(t.shape) for t in other], "another shape"
    return max(float((a.detach().double() - b.detach().double()).abs().max()) for a, b in zip(mine, other, strict=True))


def as_tensors(nested: Any, like: Any) -> list[Tensor]:
    """Nested lists of an oracle, cut as the output is cut."""
    shapes = tensors(like)
    if len(shapes) == 1:
        return [torch.tensor(nested, dtype=torch.float64)]
    return [torch.tensor(part, dtype=torch.float64) for part in nested]


def _value(expression: ast.expr, names: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(expression), "<example>", "eval"), names)
