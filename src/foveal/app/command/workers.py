"""Worker processes of a command: they end with it, however it ends."""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from foveal.child import end_with


@contextlib.contextmanager
def pool(jobs: int, prepare: Callable[..., None] | None = None, *arguments: Any) -> Iterator[ProcessPoolExecutor]:
    """Processes that are started anew: a fork would copy locks of threads that are not there. prepare:
    called once in each of them.
    """
    context = multiprocessing.get_context("spawn")
    workers = ProcessPoolExecutor(jobs, context, initializer=_start, initargs=(os.getpid(), prepare, arguments))
    try:
        yield workers
        workers.shutdown()
    except BaseException:
        processes = list((workers._processes or {}).values())
        try:
            workers.shutdown(cancel_futures=True)  # what is begun is finished: no file is left half-written
        except BaseException:  # a second Ctrl-C
            for process in processes:
                process.kill()
            raise
        raise


def _start(parent: int, prepare: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent answers for all
    end_with(parent)
    if prepare is not None:
        prepare(*arguments)
