"""Every entry of the catalogue as one thing that can be run: a module, its inputs, and the same in plain loops.

An oracle file `oracle/NAME.py` has a function NAME, and beside it `like` where NAME knows one sample or one head only.

- A mask: NAME takes the mask's own parameters, and queries= and keys=.
- A layer or a position: `like(module, *inputs)` reads the module's weights with `.tolist()` and calls NAME for each
  sample.
- A function: `like`, or else NAME, takes the function's arguments as nested lists. One that goes by its kind in the
  catalogue does so
  here: `score.additive` is `score` in `oracle/additive.py`, where `additive` is the layer.
"""

import ast
import copy
import importlib
import inspect
import io
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from torch import Tensor, nn

from foveal.core.attend import attend
from foveal.core.mask import Mask
from foveal.errors import FovealError
from foveal.report.catalogue import Entry, Ran, entries, run_example, samples


@dataclass
class Case:
    name: str
    module: nn.Module
    inputs: tuple[Any, ...]
    loops: Callable[[], Any]  # nested lists, in float64
    masks: tuple[str, ...] = ()  # the names under which it takes a mask

    def double(self) -> tuple[nn.Module, tuple[Any, ...]]:
        return copy.deepcopy(self.module).double(), cast(self.inputs, torch.float64)


def cases() -> list[Entry]:
    """Models have tests of their own: an oracle of loops would be a model of its own, too."""
    return [entry for entry in entries() if entry.kind != "model"]


def case(entry: Entry) -> Case:
    stem = entry.module.rpartition(".")[2]
    oracle = importlib.import_module(f"oracle.{stem}")
    expression = ast.parse(entry.example, mode="eval").body
    names = {**vars(importlib.import_module(entry.module)), **samples()}
    ran = run_example(entry)
    if isinstance(ran.output, Mask):
        return _mask_case(entry.name, ran.output, getattr(oracle, stem), *_arguments(expression, names))
    if ran.module is None:
        kind, by_kind, _ = entry.name.partition(".")
        loops = getattr(oracle, kind) if by_kind else getattr(oracle, "like", None) or getattr(oracle, stem)
        return _function_case(entry.name, _value(expression.func, names), loops, *_arguments(expression, names))
    method = expression.func.attr if isinstance(expression.func, ast.Attribute) else "forward"
    return _module_case(entry.name, ran, method, oracle.like)


def _mask_case(
    name: str, mask: Mask, oracle: Callable[..., Any], given: tuple[Any, ...], options: dict[str, Any]
) -> Case:
    batch, heads, size = 3, 2, 37
    try:
        mask.check(batch, size, size)
    except FovealError:
        size = 36  # a grid of 6 × 6
    generator = torch.Generator().manual_seed(0)
    inputs = tuple(torch.randn(batch, heads, size, 8, generator=generator) for _ in range(3))

    def loops() -> Any:
        attention = importlib.import_module("oracle.attend").attend
        kept = oracle(*given, **options, queries=size, keys=size)
        kept = kept if mask.batched else [kept] * batch
        q, k, v = lists(cast(inputs, torch.float64))
        return [[attention(q[b][h], k[b][h], v[b][h], mask=kept[b]) for h in range(heads)] for b in range(batch)]

    return Case(name, Masked(mask).eval(), inputs, loops)


def _function_case(
    name: str,
    function: Callable[..., Any],
    oracle: Callable[..., Any],
    inputs: tuple[Any, ...],
    options: dict[str, Any],
) -> Case:
    def loops() -> Any:
        return oracle(*lists(cast(inputs, torch.float64)), **options)

    return Case(name, Function(function, options).eval(), inputs, loops, _masks(function))


def _module_case(name: str, ran: Ran, method: str, like: Callable[..., Any]) -> Case:
    stir(ran.module)
    module = ran.module if method == "forward" and not ran.options else Method(ran.module, method, ran.options)
    masks = _masks(ran.module.forward) if method == "forward" else ()

    def loops() -> Any:
        return like(copy.deepcopy(ran.module).double(), *cast(ran.inputs, torch.float64), **ran.options)

    return Case(name, module.eval(), ran.inputs, loops, masks)


def _masks(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names under which it is given masks. A module that passes all on passes it to its first part."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return _masks(next(function.__self__.children()).forward)
    return tuple(
        parameter.name for parameter in parameters if parameter.name == "mask" or parameter.name.endswith("_mask")
    )


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

    def forward(self, *inputs: Any, **masks: Any) -> Any:
        return self.function(*inputs, **self.options, **masks)


class Method(nn.Module):
    def __init__(self, module: nn.Module, method: str, options: dict[str, Any]) -> None:
        super().__init__()
        self.inner, self.method, self.options = module, method, options

    def forward(self, *inputs: Any) -> Any:
        return getattr(self.inner, self.method)(*inputs, **self.options)


def stir(module: nn.Module) -> None:
    """Move every weight a little, so that no bias is 0 and no gain 1: else nobody would see that one is left out."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
        for part in module.modules():
            if isinstance(part, nn.BatchNorm2d):  # what it saw in training: neither mean 0 nor variance 1
                part.running_mean.normal_(0, 0.2, generator=generator)
                part.running_var.uniform_(0.5, 2, generator=generator)


def cast(values: tuple[Any, ...], dtype: torch.dtype) -> tuple[Any, ...]:
    return tuple(
        value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value for value in values
    )


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
    """The largest difference; a shape that differs is no answer at all, and neither is one that is not a number."""
    mine, other = tensors(output), tensors(reference)
    assert [tuple(t.shape) for t in mine] == [tuple(t.shape) for t in other], "another shape"
    assert all(t.isfinite().all() for t in (*mine, *other)), "not a finite number"
    return max(float((a.detach().double() - b.detach().double()).abs().max()) for a, b in zip(mine, other, strict=True))


def as_tensors(nested: Any, like: Any) -> list[Tensor]:
    """Nested lists of an oracle, cut as the output is cut."""
    parts = [nested] if len(tensors(like)) == 1 else nested
    return [torch.tensor(part, dtype=torch.float64) for part in parts]


def run_by_onnx(one: Case) -> list[Tensor]:
    """What onnxruntime says, once the case is exported."""
    given = {f"input_{place}": value for place, value in enumerate(one.inputs) if isinstance(value, Tensor)}
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        path = str(Path(folder) / "one.onnx")
        torch.onnx.export(one.module, one.inputs, path, dynamo=True, verbose=False, input_names=list(given))
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    # An input that the mechanism does not read is not part of the graph.
    feed = {each.name: given[each.name].numpy() for each in session.get_inputs()}
    return [torch.from_numpy(result) for result in session.run(None, feed)]


def _arguments(expression: ast.expr, names: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a call is given, by place and by name; nothing for a plain name."""
    if not isinstance(expression, ast.Call):
        return (), {}
    return tuple(_value(a, names) for a in expression.args), {
        word.arg: _value(word.value, names) for word in expression.keywords
    }


def _value(expression: ast.expr, names: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(expression), "<example>", "eval"), names)
