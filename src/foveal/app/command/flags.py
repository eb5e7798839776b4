"""Flags that several commands share, and the options of a stage, which every task adds to."""

import argparse
import dataclasses
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from foveal.errors import FovealError, expect, expect_integer
from foveal.options import Options, add_flag, flag, from_flags, help_of
from foveal.runtime.packaged import FILE
from foveal.runtime.paths import STDIN
from foveal.tasks.task import Task, all_tasks, find_task

PER_CORE = 16  # processes per core; more only wait for each other


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", metavar="NAME", default="auto", help="cpu, cuda, cuda:1, … (default: auto, a GPU if there is one)"
    )


def add_stage_options(parser: argparse.ArgumentParser, stage: str) -> None:
    """The options of a stage for the models of every task; what several tasks have stands first."""
    tasks = all_tasks()
    owners: dict[str, list[Task]] = {}
    for task in tasks:
        for one in dataclasses.fields(task.options(stage)):
            owners.setdefault(one.name, []).append(task)
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, holders in owners.items():
        groups.setdefault(tuple(task.name for task in holders), []).append(name)
    for names, options in sorted(groups.items(), key=lambda pair: (-len(pair[0]), pair[0])):
        holders = [find_task(name) for name in names]
        verbs = " or ".join(task.does for task in holders)
        group = parser.add_argument_group(f"of a model that {verbs}" if len(holders) < len(tasks) else "of every model")
        for option in options:
            texts = {task.does: help_of(task.options(stage), option) for task in holders}
            alike = len(set(texts.values())) == 1
            text = (
                next(iter(texts.values()))
                if alike
                else "; ".join(f"of a model that {verb}, {one}" for verb, one in texts.items())
            )
            add_flag(group, holders[0].options(stage), option, text)


def stage_options(args: argparse.Namespace, stage: str, task: str) -> dict[str, Any]:
    """What was given for this stage; an option that only the models of another task have is refused."""
    wanted: type[Options] = find_task(task).options(stage)
    own = {one.name for one in dataclasses.fields(wanted)}
    for other in all_tasks():
        for one in dataclasses.fields(other.options(stage)):
            foreign = one.name not in own and getattr(args, one.name, None) is not None
            expect(
                not foreign,
                flag(one.name),
                f"a model that {other.does}",
                f"one that {find_task(task).does}",
                "leave it out",
            )
    return from_flags(args, wanted)


def check_jobs(count: object, name: str, least: int = 1) -> None:
    """Raise a FovealError that names the flag, unless that many processes make sense here:
    a mistyped number must not bring a machine down.
    """
    expect_integer(count, name, least)
    cores = os.cpu_count() or 1
    if count > PER_CORE * cores:  # type: ignore[operator]
        raise FovealError(
            f"{name}: expected at most {PER_CORE * cores}, {PER_CORE} for each of the {cores} cores, got {count}"
        )


def expect_not_input(out: "str | Path | None", inputs: "Iterable[str | Path | None]", name: str = "--out") -> None:
    """Raise a FovealError where writing `out` would replace something that the command reads: a model, an image,
    a data set.
    """
    if out is None or not Path(out).exists():
        return
    for one in inputs:
        if one is None or (one != STDIN and not os.path.lexists(one)):
            continue
        own = Path(one) / FILE  # of a run's folder, what is read
        same = _is_stdin(out) if one == STDIN else Path(out).samefile(one)
        same = same or (own.exists() and Path(out).samefile(own))
        expect(not same, name, "another name than what is read", str(out), "choose another name")


def _is_stdin(file: "str | Path") -> bool:
    """Whether a shell gives this file to the command: foveal predict - < FILE."""
    try:
        return os.path.samestat(os.fstat(sys.stdin.fileno()), os.stat(file))  # noqa: PTH116 — the pair of fstat
    except (OSError, ValueError, AttributeError):  # closed, or no file of the system's
        return False


def comes_first(what: str, command: str, arguments: Sequence[str], known: Iterable[str]) -> bool:
    """Whether the first word is there, which says what flags there are: one before it would be read as none, or its
    value as that word. Raise a FovealError where a flag stands before it.
    """
    if not arguments or not arguments[0].startswith("-"):
        return bool(arguments)
    meant = next((name for name in known if name in arguments), what.upper())
    helped = any(word in ("-h", "--help") for word in arguments)
    expect(helped, f"foveal {command}", f"the {what} first: foveal {command} {meant} …", f"{arguments[0]} before it")
    return False


def task_of(name: str) -> Task:
    """The task of this name, as typed after `foveal train`."""
    expect(
        not name.startswith("-"),
        "the task",
        f"one of {', '.join(task.name for task in all_tasks())} as the first word",
        name,
    )
    return find_task(name)
