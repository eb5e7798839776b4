"""What a run does to its process while it goes, put back at the end: who trains in a program of their own goes on as
before.

Each is a context: determinism, the precision of products, freed memory, less noise, one process per folder, and
interruption.
"""

import contextlib
import ctypes
import importlib.util
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils import deterministic

from foveal.errors import FovealError

# Windows has none: there nobody is kept out
fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None
MMAP_MAX, TRIM_THRESHOLD = -4, -1  # M_… of glibc's malloc.h
NOISE = (
    ".*does not have many workers.*",
    ".*GPU available but not used.*",
    ".*number of training batches.*logging interval.*",
    ".*lr_scheduler.step.*",
    ".*treespec, LeafSpec.*",
    ".*worker processes in total.*",
    ".*in eval mode at the start of training.*",  # what is frozen
)


@contextlib.contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """tf32: products of matrices of 19 bits, as a GPU makes those of convolutions anyway,
    unless torch is asked not to.
    """
    before = torch.get_float32_matmul_precision()
    if precision == "tf32" and torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextlib.contextmanager
def kept_memory() -> Iterator[None]:
    """Let glibc keep the memory that a step frees for the next step.

    By default it maps every large tensor anew, and the system clears its pages. A step with 32 images of 224 pixels on
    two threads took 1.26 s for efficientnet-lite0, 0.88 s for icam-lite and 0.93 s for icam-31k, and takes 0.57, 0.28
    and 0.28 s, at a peak of 3.6 GB instead of 3.1 (AMD EPYC; now and then glibc keeps it by itself).
    """
    libc = ctypes.CDLL(None) if os.name == "posix" else None
    if not hasattr(libc, "mallopt"):  # another system, or another library of C
        yield
        return
    assert libc is not None
    libc.mallopt(MMAP_MAX, 0)
    libc.mallopt(TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
        libc.mallopt(MMAP_MAX, 65536)  # glibc's defaults
        libc.mallopt(TRIM_THRESHOLD, 128 * 1024)
        libc.malloc_trim(0)


@contextlib.contextmanager
def determinism() -> Iterator[None]:
    """What the trainer sets for the whole process, put back at the end:
    who trains in a program of their own goes on as before.
    """
    enabled, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    fills = deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(enabled, warn_only=warns)
        deterministic.fill_uninitialized_memory = fills  # type: ignore[attr-defined]


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """No other process may train into this folder meanwhile: two would write over each other.

    A process that dies lets go by dying.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FovealError(
                f"{folder}: another process is training in this folder; wait for it, or choose another --out"
            ) from None
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Lightning answers Ctrl-C and SIGTERM by ending the process: the caller learns which of them it was."""
    try:
        yield
    except SystemExit as end:
        raise end.__context__ if isinstance(end.__context__, KeyboardInterrupt) else KeyboardInterrupt from None


@contextlib.contextmanager
def of_this_run(last: Path) -> Iterator[None]:
    """A checkpoint that another run wrote does not fit this one's model."""
    try:
        yield
    except (RuntimeError, KeyError) as error:
        if "loading state_dict" not in str(error) and not isinstance(error, KeyError):
            raise
        reason = " ".join(str(error).split())[:160]
        raise FovealError(
            f"{last}: expected a checkpoint of this run, got another's ({reason}); remove it to begin this run anew"
        ) from None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Lightning prints tips, devices and workers, and uses what torch is about to drop.

    A run prints what matters by itself; the caller's own filters and levels are put back at the end.
    """
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning_fabric")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        for words in NOISE:
            warnings.filterwarnings("ignore", words)
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
