"""`foveal check MODULE:CLASS`: diagnosis of anybody's attention for the seven mistakes that turn up in everybody's."""

import argparse
import ast
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from foveal.errors import FovealError
from foveal.explain.check import check


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="MODULE:CLASS", help="a dotted module or a .py file, and a class or function in it")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", nargs="+", action="extend", default=[], help="arguments of the constructor, such as width=64 heads=4"
    )
    parser.add_argument(
        "--true-means",
        choices=["look", "hide"],
        help="what True in a mask is meant to do; unless given, what its name and documentation promise",
    )
    parser.add_argument("--layout", choices=["bnc", "nbc", "bhnd", "bnhd"], help="what its tensors look like; unless given, it is guessed")
    parser.add_argument("--shape", metavar="B,N,C", type=_shape, help="the tokens to try it with; unless given, they are guessed")


def run(args: argparse.Namespace) -> int:
    arguments = dict(_setting(text) for text in args.set)
    report = check(found(args.target), arguments=arguments, true_means=args.true_means, layout=args.layout, shape=args.shape)
    print(report)
    return 0 if report.ok else 1


def found(target: str) -> Any:
    """What MODULE:CLASS names."""
    place, colon, name = target.rpartition(":")
    if not (place and colon and name):
        raise FovealError(
            f"what to check: expected MODULE:CLASS, such as torch.nn:MultiheadAttention or attention.py:Attention, got {target!r}"
        )
    value: Any = _module(place)
    for part in name.split("."):
        if not hasattr(value, part):
            there = sorted(word for word, thing in vars(value).items() if isinstance(thing, type) and not word.startswith("_"))
            raise FovealError(
                f"{place} has no {name!r}; expected one of its classes or functions: {', '.join(there[:20]) or 'it has none'}"
            )
        value = getattr(value, part)
    if not callable(value):
        raise FovealError(f"{target}: expected a class, a module or a function, got {type(value).__name__}")
    return value


def _module(place: str) -> ModuleType:
    path = Path(place)
    try:
        if place.endswith(".py"):
            if not path.is_file():
                raise FovealError(f"{place}: expected a Python file, got none there")
            spec = importlib.util.spec_from_file_location(path.stem, path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[path.stem] = module  # dataclasses and its own documentation are looked up there
            sys.path.insert(0, str(path.resolve().parent))
            spec.loader.exec_module(module)
            return module
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(place)
    except FovealError:
        raise
    except Exception as error:  # whatever somebody's file raises when it is loaded
        raise FovealError(f"{place}: expected a module that can be imported, got {type(error).__name__}: {error}") from error


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier()):
        raise FovealError(f"--set: expected name=value, got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def _shape(text: str) -> tuple[int, int, int]:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.strip().isdigit() for part in parts):
        raise argparse.ArgumentTypeError(f"expected three whole numbers B,N,C, got {text!r}")
    batch, tokens, width = (int(part) for part in parts)
    return batch, tokens, width
