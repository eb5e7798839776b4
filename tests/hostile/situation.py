"""A hostile situation: files as they should not be, a command as nobody should type it,
and what must be true afterwards.

Whatever comes, a command ends within seconds, with one line on stderr that names the culprit, exit status 2, and every
file as it was.
"""

import contextlib
import hashlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from training.little import ENVIRONMENT

from foveal.app.cli import main

SECONDS = 60  # the limit of one situation, on a machine that is busy


def nothing(place):
    """No files but those that every situation has."""


@dataclass(frozen=True)
class Situation:
    name: str
    argv: tuple[str, ...]  # words as {data}, {own}, {inputs}, {subject} and {flags} stand for those of the task
    line: str = ""  # a pattern that the one line on stderr must match
    make: Callable[[Path], object] = nothing  # makes the files, in the folder that the command is called in
    status: int = 2
    changes: tuple[str, ...] = ()  # patterns of files that may come, go or change; all others stay as they are
    printed: str = ""  # a pattern that must be found on stdout
    error: bool = True  # whether the one line is an error of foveal's, and no summary of what was found
    talks: bool = False  # whether stderr may have other lines before the one, such as the epochs of a run
    apart: bool = False  # in a process of its own: for what ends or blocks a process
    stdin: bytes = b""
    stdin_file: str = ""  # in its place: what a shell's < opens
    environment: dict[str, str] = field(default_factory=dict)
    quick: bool = False  # part of the quick core

    def __str__(self):
        return self.name


@dataclass(frozen=True)
class Ended:
    status: int
    stdout: str
    stderr: str


class TooLong(BaseException):
    pass


def params(situations):
    """For pytest: all but the quick core are slow."""
    return [pytest.param(one, id=one.name, marks=() if one.quick else pytest.mark.slow) for one in situations]


def check(situation, place, capfd, words=None):
    """Run the situation in its folder, and see that what it promises is true."""
    argv = filled(situation.argv, words or {})
    situation.make(place)
    before = content(place)
    ended = apart(argv, situation) if situation.apart else inside(argv, situation, capfd)
    after = content(place)
    told = f"\n$ foveal {' '.join(argv)}\n{ended.stdout}{ended.stderr}"
    assert "Traceback" not in ended.stderr, told
    assert "bug of foveal" not in ended.stderr, told
    assert ended.status == situation.status, f"exit status {ended.status}{told}"
    assert "\x1b" not in ended.stdout + ended.stderr, told
    lines = ended.stderr.splitlines()
    if situation.status and situation.error:
        assert [line.startswith("foveal: ") for line in lines].count(True) == 1, told
        assert situation.talks or len(lines) == 1, told
        assert lines[-1].startswith("foveal: error: "), told
    if situation.line:
        assert re.search(situation.line, ended.stderr), f"no {situation.line!r} in{told}"
    if situation.printed:
        assert re.search(situation.printed, ended.stdout), f"no {situation.printed!r} in{told}"
    other = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    other = [
        name
        for name in other
        if not any(Path(name).match(one) or name.startswith(f"{one}/") for one in situation.changes)
    ]
    assert not other, f"changed: {', '.join(other)}{told}"
    return ended


def filled(argv, words):
    """The words of a command, with what the task has in its places."""
    found = []
    for word in argv:
        if word in ("{inputs}", "{flags}", "{bare}"):
            found += words[word[1:-1]]
        else:
            found.append(re.sub(r"\{(data|own|subject|task)\}", lambda match: words[match[1]], word))
    return found


def content(place):
    """Name → what is there, of everything below a folder."""
    found = {}
    for folder, folders, files in os.walk(place):
        for name in folders + files:
            path = Path(folder) / name
            key = os.fsencode(path.relative_to(place)).decode(errors="backslashreplace")
            if path.is_symlink():
                found[key] = f"link to {path.readlink()}"
            elif path.is_file():
                found[key] = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                found[key] = "folder" if path.is_dir() else "pipe"
    return found


def inside(argv, situation, capfd):
    """In this process: quick, since torch is here already."""
    capfd.readouterr()
    with limited(), standing(situation.environment), fed(situation.stdin, situation.stdin_file):
        status = main(list(argv))
    out, err = capfd.readouterr()
    return Ended(status, out, err)


def apart(argv, situation):
    command = [sys.executable, "-m", "foveal", *argv]
    done = subprocess.run(
        command,
        input=situation.stdin,
        capture_output=True,
        timeout=SECONDS,
        env=ENVIRONMENT | situation.environment,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode(errors="replace"))


@contextlib.contextmanager
def limited():
    def late(number, frame):
        raise TooLong(f"more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def standing(environment):
    """With these variables in the environment."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def fed(text, name=""):
    """With this on stdin, through a real pipe: what is read past Python's buffer is there, too. name: of a file
    instead.
    """
    if name:
        reading = os.open(name, os.O_RDONLY)
    else:
        reading, writing = os.pipe()
        os.write(writing, text)
        os.close(writing)
    kept, before = os.dup(0), sys.stdin
    os.dup2(reading, 0)
    try:
        with os.fdopen(reading, "r", encoding="utf-8") as sys.stdin:
            yield
    finally:
        sys.stdin = before
        os.dup2(kept, 0)
        os.close(kept)
