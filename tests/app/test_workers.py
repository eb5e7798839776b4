"""Worker processes end with the command that started them, however it ends."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from foveal.app.command.workers import pool

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="processes are found in /proc")
SLEEPER = """
import os, sys, time
from pathlib import Path
from foveal.app.cli import _stop_when_terminated
from foveal.app.command.workers import pool

def work(folder):
    (Path(folder) / f"{os.getpid()}.worker").write_text("")
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 1)

if __name__ == "__main__":
    _stop_when_terminated()
    with pool(2) as workers:
        list(workers.map(work, [sys.argv[1]] * 1000))
"""


def alive(process):
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def wait_for(condition):
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda one: one.name)
def test_no_process_is_left(tmp_path, number):
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    started = lambda: [int(path.stem) for path in tmp_path.glob("*.worker")]  # noqa: E731
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "sleeper.py"), str(tmp_path)], stderr=subprocess.DEVNULL
    ) as parent:
        wait_for(lambda: len(started()) == 2)
        workers = started()
        assert all(alive(one) for one in workers)
        parent.send_signal(number)
        parent.wait(300)
    wait_for(lambda: not any(alive(one) for one in workers))


def double(value):
    return 2 * value


def test_results_come_in_order():
    with pool(2) as workers:
        assert list(workers.map(double, range(7))) == [0, 2, 4, 6, 8, 10, 12]


def test_what_goes_wrong_around_them_is_raised():
    seen = []

    def fails():
        with pool(1) as workers:
            seen.extend(workers.map(double, [3]))
            seen.extend(workers._processes.values())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    answer, process = seen
    assert answer == 6
    assert not process.is_alive()
