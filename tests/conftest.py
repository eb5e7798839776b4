"""Settings of the whole run: two cores, so one thread per worker; hypothesis takes its time on a busy machine."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import signal

import hypothesis
import pytest
import torch

torch.set_num_threads(1)
hypothesis.settings.register_profile("foveal", deadline=None, max_examples=25, derandomize=True)
hypothesis.settings.load_profile("foveal")


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heard():
    """A job in the background ignores Ctrl-C, and so would every process that a test starts and interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
