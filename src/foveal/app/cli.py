"""The command line `foveal`: finds the command, and turns what goes wrong into one line and an exit status.

A command is a module with `add_arguments(parser)` and `run(args) -> int`; it is loaded when it is called, and not before.
"""

import argparse
import contextlib
import importlib
import io
import os
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from foveal import __version__
from foveal.errors import FovealError, unknown

COMMANDS = {  # what is typed → its module, and what it does
    "train": ("foveal.tasks.classify.train_command", "train a model on pictures or sentences of your own, or on those that foveal makes"),
    "evaluate": ("foveal.tasks.classify.evaluate_command", "how good a trained model is, with intervals and a report"),
    "predict": ("foveal.app.command.predict", "find what a model knows in photos"),
    "translate": ("foveal.tasks.translate.command", "translate lines as they come, one for each"),
    "explain": ("foveal.tasks.classify.explain", "show where a model looked"),
    "ablate": ("foveal.tasks.classify.ablate", "train variants of a model, or its peers, and tabulate what each part is worth"),
    "data": ("foveal.app.command.data", "say what a set of pictures holds, and what is wrong with it"),
    "prune": ("foveal.app.command.prune", "the same model with fewer channels or heads, as small as another one"),
    "export": ("foveal.tasks.classify.export", "one ONNX file that describes itself, with proof that it says the same"),
    "convert": ("foveal.app.command.convert", "carry a Transformer's weights over to torch or Marian, and back"),
    "render": ("foveal.app.command.render", "render pictures of pipes, with labels, boxes and masks"),
    "show": ("foveal.app.command.show", "list every mechanism; explain and draw one, or tell what a model file says"),
    "cite": ("foveal.app.command.cite", "print the BibTeX of mechanisms"),
    "check": ("foveal.app.command.check", "examine anybody's attention for the usual mistakes"),
    "bench": ("foveal.app.command.bench", "measure side by side with others, and write results"),
}

# A command's other module, where its first word is a task with settings of its own.
OF_TASKS = {("train", "translate"): "foveal.tasks.translate.train_command", ("ablate", "transformer"): "foveal.tasks.translate.ablate"}
BUG, WRONG, STOPPED = 1, 2, 130  # exit statuses
EXTRAS = {
    "torch": "torch",
    "safetensors": "torch",
    "yaml": "train",
    "pytorch_lightning": "train",
    "kornia": "train",
    "rich": "train",
    "torch_pruning": "prune",
    "tokenizers": "translate",
}


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else list(argv)
    debug = "--debug" in arguments
    _open_streams()
    try:
        status = _run([argument for argument in arguments if argument != "--debug"])
        sys.stdout.flush()
        return status
    except _Shown as shown:
        return shown.status
    except BrokenPipeError:
        _give_up_output()
        return 0
    except KeyboardInterrupt:
        return _say("stopped", STOPPED, debug)
    except FovealError as error:
        return _say(f"error: {error}", WRONG, debug)
    except OSError as error:
        if error.filename is not None:  # of a file that has a name; what is printed goes to none
            return _say(f"error: cannot read or write {os.fsdecode(error.filename)}: {error.strerror or error}", WRONG, debug)
        _give_up_output()
        return _say(f"error: cannot write the output: {error.strerror or error}", WRONG, debug)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            return _bug(error, debug)
        return _say(f"error: this needs {package}, which is not installed; pip install foveal[{EXTRAS[package]}]", WRONG, debug)
    except SystemExit as end:  # whatever foveal ran may not end foveal as if all were well
        return _say(f"error: what was run called sys.exit({end.code!r})", WRONG, debug)
    except Exception as error:  # noqa: BLE001 — nobody but a developer wants a traceback
        return _full(debug) if _no_room(error) else _bug(error, debug)


def _no_room(error: Exception) -> bool:
    """Whether memory ran out, here or on a GPU. torch is not asked: it may not be there."""
    told = any(words in str(error) for words in ("_ALLOC_FAILED", "can't allocate memory"))
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or told


def _full(debug: bool) -> int:
    return _say("error: the memory: expected room for this, got none left; lower --batch, --size or --jobs", WRONG, debug)


def _bug(error: Exception, debug: bool) -> int:
    return _say(f"error: {type(error).__name__}: {error}; this is a bug of foveal: --debug shows where", BUG, debug)


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        return _without_command(arguments)
    name, *rest = arguments
    if name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    place, what = COMMANDS[name]
    command = importlib.import_module(OF_TASKS.get((name, rest[0] if rest else ""), place))
    parser = _Parser(prog=f"foveal {name}", description=what, allow_abbrev=False)
    command.add_arguments(parser)
    status: int = command.run(_parsed(parser, rest))
    return status


def _parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    try:
        return parser.parse_args(arguments)
    except SystemExit as done:  # argparse has shown its help or the version
        sys.stdout.flush()
        raise _Shown(int(done.code or 0)) from None


class _Shown(Exception):  # noqa: N818 — no error: all that was asked for is on the screen
    def __init__(self, status: int) -> None:
        self.status = status


def _without_command(arguments: list[str]) -> int:
    wide = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{wide}}  {what}" for name, (_, what) in COMMANDS.items())
    parser = _Parser(
        prog="foveal",
        usage="foveal [--version] [--debug] COMMAND …",
        epilog=f"commands:\n{commands}\n\n`foveal COMMAND --help` lists the arguments of one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"foveal {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    _parsed(parser, arguments)
    parser.print_help(sys.stderr)
    return WRONG


class _Parser(argparse.ArgumentParser):
    """An argument that does not fit is an error like any other: one line."""

    def error(self, message: str) -> NoReturn:
        raise FovealError(f"{message}; see {self.prog} --help")


def _say(message: str, status: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    with contextlib.suppress(OSError):
        sys.stdout.flush()  # what was printed before comes before
    with contextlib.suppress(OSError):
        print(f"foveal: {' '.join(message.split())}", file=sys.stderr)
    return status


def _open_streams() -> None:
    """A stream that the caller closed goes nowhere; a sign that the terminal does not know is no reason to stop."""
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 — open until the end
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 — open until the end
        elif isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _give_up_output() -> None:
    """Nobody reads on: let the interpreter's own flush at exit go nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
