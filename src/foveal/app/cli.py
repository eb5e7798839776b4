"""The command line `foveal`: finds the command, and turns what goes wrong into one line and an exit status.

A command is a file of app/command/ with `add_arguments(parser)` and `run(args) -> int`, found by its file; it is loaded
when it is called, and not before.
"""

import argparse
import ast
import contextlib
import importlib
import io
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from foveal import __version__
from foveal.child import end_with_parent
from foveal.errors import FovealError, naming_extras, printable, unknown
from foveal.tasks.task import all_tasks

# What `foveal --help` lists first, in this order: the name, which is its file's in app/command/, too → what it does.
# Other files follow; a task adds its own by its protocol.
COMMANDS = {
    "train": "train a model on your own data, or on data that foveal makes",
    "evaluate": "measure how good a trained model is, with intervals and a report",
    "predict": "run a model on images or text, one row per input",
    "explain": "show where a model looked",
    "export": "write one ONNX file that describes itself, with proof that it says the same",
    "bench": "time models and attention side by side with others, and write results",
    "ablate": "train variants of a model, or its peers, and tabulate what each part is worth",
    "data": "describe a data set of images, and what is wrong with it",
    "render": "render images of pipes, with labels, boxes and label maps",
    "prune": "make a model smaller: fewer channels or heads, as small as another one",
    "convert": "carry weights over to torch, Marian or transformers' image models, and back",
    "show": "list every mechanism and model; explain and draw one, or describe a model file",
    "cite": "print the BibTeX of mechanisms and models, or of what a run used",
    "check": "examine anybody's attention for the usual mistakes",
}

BUG, WRONG, STOPPED, TERMINATED = 1, 2, 130, 143  # exit statuses


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else list(argv)
    debug = "--debug" in arguments
    end_with_parent()
    _open_streams()
    _stop_when_terminated()
    try:
        _expect_working_folder()
        with naming_extras():
            status = _run([argument for argument in arguments if argument != "--debug"])
        sys.stdout.flush()
        return status
    except _Shown as shown:
        return shown.status
    except BrokenPipeError:
        _give_up_output()
        return 0
    except Terminated:
        return _say("terminated", TERMINATED, debug)
    except KeyboardInterrupt:
        return _say("stopped", STOPPED, debug)
    except FovealError as error:
        return _say(f"error: {error}", WRONG, debug)
    except OSError as error:
        if error.filename is not None:  # of a file that has a name; what is printed goes to none
            return _say(
                f"error: cannot read or write {os.fsdecode(error.filename)}: {error.strerror or error}", WRONG, debug
            )
        _give_up_output()
        return _say(f"error: cannot write the output: {error.strerror or error}", WRONG, debug)
    except SystemExit as end:  # whatever foveal ran may not end foveal as if all were well
        return _say(f"error: what was run called sys.exit({end.code!r})", WRONG, debug)
    except Exception as error:  # noqa: BLE001 — nobody but a developer wants a traceback
        return _full(arguments, debug) if _no_room(error) else _bug(error, debug)


def _expect_working_folder() -> None:
    """A shell may stand in a folder that is gone; numeric libraries end the process when they notice."""
    try:
        os.getcwd()  # noqa: PTH109 — the same, and no Path is needed
    except OSError as error:
        raise FovealError(f"the working folder: {error.strerror or error}; change to one that exists") from None


def _no_room(error: Exception) -> bool:
    """Whether memory ran out, here or on a GPU. torch is not asked: it may not be there."""
    words = (
        "_ALLOC_FAILED",
        "can't allocate memory",
        "Storage size calculation overflowed",
        "integer multiplication overflow",
    )
    named = any(one in str(error) for one in words)
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or named


def _full(arguments: list[str], debug: bool) -> int:
    sized = any(word.partition("=")[0] == "--config" for word in arguments)  # the model itself may be too large
    flags = "the numbers of --config, --batch, --size or --jobs" if sized else "--batch, --size or --jobs"
    return _say(f"error: out of memory: lower {flags}", WRONG, debug)


def _bug(error: Exception, debug: bool) -> int:
    return _say(f"error: {type(error).__name__}: {error}; this is a bug of foveal: --debug shows where", BUG, debug)


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        return _without_command(arguments)
    name, *rest = arguments
    known = commands()
    if name not in known:
        raise unknown("command", name, known)
    parser = parser_of(name, rest)
    status: int = importlib.import_module(known[name][0]).run(_parsed(parser, rest))
    return status


def parser_of(name: str, arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """What reads the arguments of a command."""
    place, what = commands()[name]
    command = importlib.import_module(place)
    parser = _Parser(prog=f"foveal {name}", description=what, allow_abbrev=False)
    command.add_arguments(parser)
    if hasattr(command, "add_more"):  # what depends on the first word, such as a task
        command.add_more(parser, arguments)
    return parser


def commands() -> dict[str, tuple[str, str]]:
    """Name → (module, what it does): foveal's own, and those that tasks bring."""
    found = {name: (f"foveal.app.command.{name}", what) for name, what in (COMMANDS | _other_files()).items()}
    for task in all_tasks():
        found |= {name: what for name, what in task.commands.items() if name not in found}  # a task replaces none
    return found


def _other_files() -> dict[str, str]:
    """The commands that COMMANDS does not list: name → what the docstring says behind `foveal NAME …`:, read and not
    imported.
    """
    found = {}
    folder = Path(__file__).parent / "command"
    for file in sorted([*folder.glob("*.py"), *folder.glob("*/__init__.py")]):
        name = file.parent.name if file.stem == "__init__" else file.stem
        text = "" if name in COMMANDS else file.read_text(encoding="utf-8")
        if "\ndef add_arguments(" in text:
            title = " ".join((ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0].split())
            found[name] = (title.partition("`: ")[2] or title).removesuffix(".")
    return found


def _parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    try:
        return parser.parse_intermixed_args(_switches(parser, arguments))  # flags may stand between the inputs
    except SystemExit as done:  # argparse has shown its help or the version
        sys.stdout.flush()
        raise _Shown(int(done.code or 0)) from None


def _switches(parser: argparse.ArgumentParser, arguments: list[str]) -> list[str]:
    """--sample before a word that is no value means --sample true: the word is an input."""
    names = {
        name
        for action in parser._actions
        if action.nargs == "?" and action.const == "true"
        for name in action.option_strings
    }
    following = [*arguments, ""][1:]  # one for each, and none for no argument
    return [
        f"{word}=true" if word in names and after.lower() not in ("true", "false") else word
        for word, after in zip(arguments, following, strict=False)  # without arguments there is none
    ]


class _Shown(Exception):  # noqa: N818 — no error: all that was asked for is on the screen
    def __init__(self, status: int) -> None:
        self.status = status


def _without_command(arguments: list[str]) -> int:
    known = commands()
    wide = max(map(len, known))
    listed = "\n".join(f"  {name:{wide}}  {what}" for name, (_, what) in known.items())
    parser = _Parser(
        prog="foveal",
        usage="foveal [--version] [--debug] COMMAND …",
        epilog=f"commands:\n{listed}\n\n`foveal COMMAND --help` lists the arguments of one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"foveal {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    _parsed(parser, arguments)
    parser.print_help(sys.stderr)
    return WRONG


class _Parser(argparse.ArgumentParser):
    """An argument that does not fit is an error like any other: one line. -1, -1e5 and -inf are values,
    and no flags.
    """

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self._negative_number_matcher = re.compile(r"^-(\d|\.\d|inf|nan)")

    def error(self, message: str) -> NoReturn:
        raise FovealError(f"{message}; see {self.prog} --help")


def _say(message: str, status: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    with contextlib.suppress(OSError):
        sys.stdout.flush()  # what was printed before comes before
    with contextlib.suppress(OSError):
        print(f"foveal: {printable(' '.join(message.split()))}", file=sys.stderr)
    return status


class Terminated(KeyboardInterrupt):
    """SIGTERM: half-written files are removed and workers are stopped, as at Ctrl-C."""


def _stop_when_terminated() -> None:
    def stop(number: int, frame: object) -> NoReturn:
        raise Terminated

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)


def _open_streams() -> None:
    """A stream that the caller closed goes nowhere; a sign that the terminal does not know is no reason to stop."""
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 — open until the end
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 — open until the end
        elif isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
                if name == "stderr"
                else "surrogateescape"
                if stream.encoding.lower() == "utf-8"
                else "replace"
            )


def _give_up_output() -> None:
    """Nobody reads on: let the interpreter's own flush at exit go nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
