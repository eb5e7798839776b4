"""What foveal says when it is given something it cannot use: one line, with what was expected,
what was found and what to do.
"""

import contextlib
import difflib
import operator
import os
import reprlib
import stat
from collections.abc import Iterable, Iterator
from numbers import Real

EXTRAS = {  # a package that foveal runs without → the extra that installs it
    "torch": "torch",
    "safetensors": "torch",
    "yaml": "train",
    "pytorch_lightning": "train",
    "kornia": "train",
    "rich": "train",
    "torch_pruning": "prune",
    "tokenizers": "text",
    "sacrebleu": "train",
    "torchmetrics": "train",
    "onnx": "train",
    "onnxscript": "train",
    "transformers": "peers",
    "huggingface_hub": "hub",
}


class FovealError(ValueError):
    """Bad input. The message is one line and is meant for the person who made the call."""


class MissingPackage(FovealError, ModuleNotFoundError):  # noqa: N818 — an import that fails is an ImportError, too
    """A package that one of foveal's extras installs, and nobody has installed."""

    def __init__(self, package: str) -> None:
        super().__init__(f"this needs {package}, which is not installed; pip install foveal[{EXTRAS[package]}]")
        self.name = package


@contextlib.contextmanager
def naming_extras() -> Iterator[None]:
    """Around what imports more than `pip install foveal` brings: where that fails, which extra brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if isinstance(error, MissingPackage) or package not in EXTRAS:
            raise
        raise MissingPackage(package) from None


def expect(holds: bool, what: str, expected: object, got: object, do: str = "") -> None:
    """Raise a FovealError that names `what`, unless it `holds`."""
    if not holds:
        advice = f"; {do}" if do else ""
        raise FovealError(f"{what}: expected {expected}, got {got}{advice}")


@contextlib.contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Around what reads a file: where the system refuses, a FovealError that says so."""
    try:
        yield
    except OSError as error:
        # such as a link below the folder that was named
        named = error.filename if isinstance(error.filename, (str, bytes)) else path
        raise FovealError(f"cannot read {os.fsdecode(named)}: {error.strerror or error}") from None


def expect_plain_file(path: str | os.PathLike[str]) -> None:
    """Raise a FovealError unless this is a file with content that can be read:
    to open a pipe would wait for its writer for ever.
    """
    with reading(path):
        mode = os.stat(path).st_mode  # noqa: PTH116 — paths of all kinds
    expect(
        stat.S_ISREG(mode), os.fspath(path), "a plain file", "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
    )


def expect_integer(value: object, what: str, least: int = 1, expected: str = "") -> None:
    """Raise a FovealError that names `what`, unless it is an integer from `least` on.

    `expected` says that in other words.
    """
    limit = expected or f"at least {least}"
    if not is_integer(value):
        raise FovealError(
            f"{what}: expected {limit if 'number' in limit or 'integer' in limit else f'an integer, {limit}'}, got "
            f"{short_repr(value)}"
        )
    if value < least:  # type: ignore[operator]
        raise FovealError(f"{what}: expected {limit}, got {short_repr(value)}")
    if value >= 2**31:  # type: ignore[operator]
        raise FovealError(f"{what}: expected a number below 2³¹, got {short_repr(value)}")


def is_integer(value: object) -> bool:
    """Whether this may be a size or an index: an int, numpy's or torch's, but no bool."""
    if isinstance(value, int):
        return not isinstance(value, bool)
    if hasattr(value, "requires_grad"):
        return False  # a tensor cannot be told apart, hashed or kept as a number can
    if not hasattr(value, "dtype"):
        # a symbolic size of torch: to ask for its number would make it a constant
        return hasattr(type(value), "__index__")
    try:
        operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # a fraction, or several numbers
        return False
    return True


def is_number(value: object) -> bool:
    """Whether this is one real number, and no bool."""
    return isinstance(value, (int, float, Real)) and not isinstance(value, bool)


def short_repr(value: object) -> str:
    """What was got, in a few words and on one line."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, (int, float, str, list, tuple, slice)):
        try:
            return " ".join(reprlib.repr(value).split())
        except ValueError:  # Python writes no number of more than 4300 digits
            pass
    return type(value).__name__


def counted(count: int, one: str, several: str = "") -> str:
    """1 image, 2 images; several: a plural that is not `one` and an s."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def printable(text: str) -> str:
    """Text that steers no terminal and that every file can hold: control characters, and bytes that are no UTF-8,
    are escaped.
    """
    return text if text.isprintable() else "".join(sign if sign.isprintable() else _escape(sign) for sign in text)


def _escape(sign: str) -> str:
    number = ord(sign)
    byte = 0xDC80 <= number <= 0xDCFF  # as os.fsdecode writes a byte that is no UTF-8
    return f"\\x{number - 0xDC00:02x}" if byte else sign.encode("unicode_escape").decode()


def unknown(kind: str, name: str, names: Iterable[str]) -> FovealError:
    """The error for a name that does not exist, with the nearest one that does, if any is near."""
    known = sorted(names)
    near = nearest(name, known)
    hint = f"the nearest is {near!r}; " if near else ""
    return FovealError(f"no {kind} is called {name!r}; {hint}there are {', '.join(known)}")


def nearest(name: str, known: list[str]) -> str | None:
    """The known name that is meant: whatever its case and its - and _, one that is a letter away,
    then one that begins like it, then any alike.
    """
    plain = {_plain(one): one for one in reversed(known)}
    wanted = _plain(name)
    shorter = [
        one for one in plain if min(len(one), len(wanted)) >= 3 and (wanted.startswith(one) or one.startswith(wanted))
    ]
    searches: list[tuple[Iterable[str], float]] = [(plain, 0.9), (shorter, 0.0), (plain, 0.5)]
    near = next(
        (found for among, least in searches if (found := difflib.get_close_matches(wanted, among, n=1, cutoff=least))),
        None,
    )
    return plain[near[0]] if near else None


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")
