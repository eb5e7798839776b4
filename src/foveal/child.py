"""Processes that foveal starts end with the one that started them,
also where that was killed and could not stop them.
"""

import contextlib
import ctypes
import os
import signal
import sys

PARENT = "FOVEAL_PARENT"  # variable of the environment: the process that a run of a sweep ends with
DIE_WITH_PARENT = 1  # Linux' PR_SET_PDEATHSIG


def end_with(parent: int) -> None:
    """End this process as soon as its parent, of this number, has ended; at once where it has already."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def end_with_parent() -> None:
    """The same where the environment names the parent. Processes that this one starts have a parent of their own."""
    number = os.environ.pop(PARENT, "")
    if number.isdecimal():
        end_with(int(number))
