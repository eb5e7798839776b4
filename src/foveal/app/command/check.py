"""`foveal check MODULE:CLASS`: diagnosis of anybody's attention for the seven mistakes that turn up in everybody's."""

import argparse
import ast
import importlib
import importlib.util
import inspect
import os
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from foveal.errors import FovealError
from foveal.explain.check import check
from foveal.explain.diagnosis.subject import in_a_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="MODULE:CLASS", help="a dotted module or a .py file, and a class or function in it"
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        nargs="+",
        action="extend",
        default=[],
        help="arguments of the constructor, such as width=64 heads=4; unless given, they are guessed",
    )
    parser.add_argument(
        "--true-means",
        choices=["look", "hide"],
        help="what True in a mask is meant to do; unless given, what its name and documentation promise",
    )
    parser.add_argument(
        "--layout",
        choices=["bnc", "nbc", "bhnd", "bnhd"],
        help="what its tensors look like; unless given, it is guessed",
    )
    parser.add_argument("--shape", metavar="B,N,C", help="the tokens to try it with; unless given, they are guessed")


def run(args: argparse.Namespace) -> int:
    arguments = dict(_setting(text) for text in args.set)
    shape = None if args.shape is None else _shape(args.shape)
    exit_at_once, os._exit = os._exit, _refuse_exit
    try:
        report = check(
            found(args.target), arguments=arguments, true_means=args.true_means, layout=args.layout, shape=shape
        )
        text = str(report)
    except (FovealError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also SystemExit: somebody's sys.exit(0) is not a module without mistakes
        raise FovealError(f"{args.target}: expected code that can be examined, got {in_a_line(error)}") from error
    finally:
        os._exit = exit_at_once
    print(text)
    return 0 if report.ok else 1


def _refuse_exit(status: int) -> NoReturn:
    """Somebody's os._exit(0) is not a module without mistakes."""
    raise SystemExit(status)


def found(target: str) -> Any:
    """What MODULE:CLASS names."""
    place, colon, name = target.rpartition(":")
    if not (place and colon and name):
        raise FovealError(
            "what to check: expected MODULE:CLASS, such as torch.nn:MultiheadAttention or attention.py:Attention, "
            f"got {target!r}"
        )
    module = _module(place)
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise FovealError(
                f"{place} has no {name!r}; expected one of its classes or functions: "
                f"{', '.join(_there(module)[:20]) or 'it has none'}"
            )
        value = getattr(value, part)
    if not callable(value):
        raise FovealError(f"{target}: expected a class, a module or a function, got {type(value).__name__}")
    return value


def _there(module: ModuleType) -> list[str]:
    """Its classes and functions, those that it defines itself first."""
    things = {
        word: thing for word, thing in vars(module).items() if isinstance(thing, type) or inspect.isroutine(thing)
    }
    public = [word for word in things if not word.startswith("_")]
    return sorted(public, key=lambda word: (getattr(things[word], "__module__", None) != module.__name__, word))


def _module(place: str) -> ModuleType:
    try:
        if place.endswith(".py"):
            return _loaded(Path(place))
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(place)
    except (FovealError, KeyboardInterrupt):
        raise
    except BaseException as error:  # whatever somebody's file raises when it is loaded, sys.exit among it
        raise FovealError(f"{place}: expected a module that can be imported, got {in_a_line(error)}") from error


def _loaded(path: Path) -> ModuleType:
    if not path.is_file():
        raise FovealError(f"{path}: expected a Python file, got none there")
    # Somebody's file called torch.py does not take the place of torch.
    name = f"_checked_{path.stem}" if path.stem in sys.modules else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and its own documentation are looked up there
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier()):
        raise FovealError(f"--set: expected name=value, got {text!r:.80}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a text that is almost Python
            return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value
    except (TypeError, RecursionError, MemoryError) as error:  # such as {[]: 1}, or a thousand brackets
        raise FovealError(
            f"--set {name:.80}: expected a value that Python can read, got {value!r:.80} ({type(error).__name__})"
        ) from error


def _shape(text: str) -> tuple[int, int, int]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise FovealError(f"--shape: expected three integers B,N,C, got {text!r:.80}")
    batch, tokens, width = map(int, parts)
    return batch, tokens, width
