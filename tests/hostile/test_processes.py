"""Commands that are stopped in the middle: no process is left, no half-written file,
and the work goes on from there.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from PIL import Image
from safetensors.torch import load_file
from training.little import ENVIRONMENT, image, typed

MARK = "HOSTILE_TEST"  # in the environment of a command and of all that it starts
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc").exists(), reason="processes are found in /proc")]


class Started:
    """A command in a process of its own, and the processes that it has started."""

    def __init__(self, *words, **environment):
        self.mark = f"{MARK}={uuid.uuid4()}"
        name, value = self.mark.split("=")
        command = [sys.executable, "-m", "foveal", *map(str, words)]
        environment = ENVIRONMENT | environment | {name: value}
        self.errors = open("stderr.txt", "wb")  # noqa: SIM115, PTH123 — closed below
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.errors, env=environment)

    def alive(self):
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if folder.name.isdecimal() and self.mark.encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
        return found

    def wait_for(self, condition, seconds=300):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"waited in vain; {Path('stderr.txt').read_text(errors='replace')}"
            time.sleep(0.1)

    def stop(self, number):
        self.process.send_signal(number)
        self.process.wait(300)
        self.wait_for(lambda: not self.alive())
        self.errors.close()
        return Path("stderr.txt").read_text(errors="replace")


def half_written(folder):
    return list(folder.rglob(".*.part"))


STOPPED = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT], ids=lambda one: one.name)


def expect_one_line(text, number, status):
    lines = [line for line in text.splitlines() if line.startswith("foveal:")]
    assert "Traceback" not in text, text
    if number == signal.SIGTERM:
        assert (lines, status) == (["foveal: terminated"], 143), text
    if number == signal.SIGINT:
        assert (lines, status) == (["foveal: stopped"], 130), text


@STOPPED
def test_render_leaves_no_process(place, number):
    words = ("render", "pipes", "--count", 300, "--size", 64, "--jobs", 2, "--out", "r")
    started = Started(*words)
    started.wait_for(lambda: len(list(place.glob("r/images/*.jpg"))) > 3)
    text = started.stop(number)
    expect_one_line(text, number, started.process.returncode)
    if number != signal.SIGKILL:
        assert not half_written(place)


@STOPPED
def test_data_leaves_no_process(place, number):
    for name in "ab":
        (place / "d" / name).mkdir(parents=True)
        Image.fromarray(image(1, 0)).resize((900, 900)).save(place / "d" / name / "0.png")
        for one in range(1, 900):
            os.link(place / "d" / name / "0.png", place / "d" / name / f"{one}.png")
    started = Started("data", "d", "--check", "--jobs", 2)
    started.wait_for(lambda: len(started.alive()) > 2)
    time.sleep(1)
    expect_one_line(started.stop(number), number, started.process.returncode)


@STOPPED
def test_predict_leaves_no_half_file(place, number):
    (place / "d").mkdir()
    Image.fromarray(image(1, 0)).resize((900, 900)).save(place / "d/0.png")
    for one in range(1, 3000):
        os.link(place / "d/0.png", place / f"d/{one}.png")
    started = Started("predict", "icam-fast-pipes", "d", "--out", "found.csv")
    started.wait_for(lambda: half_written(place))
    expect_one_line(started.stop(number), number, started.process.returncode)
    assert not (place / "found.csv").exists()
    if number == signal.SIGKILL:  # the next one tidies up
        assert typed("predict", "icam-fast-pipes", "d/0.png", "--out", "found.csv").returncode == 0
    assert not half_written(place)


@STOPPED
def test_training_goes_on_where_it_was_stopped(task, bench, number):
    made = bench(task)
    words = ["train", task, "--data", made.words["data"], *made.words["flags"], "--epochs", "6"]
    assert typed(*words, "--out", "whole", timeout=120).returncode == 0
    started = Started(*words, "--out", "new")
    started.wait_for(lambda: (made.place / "new/last.ckpt").exists())
    expect_one_line(started.stop(number), number, started.process.returncode)
    done = typed(*words, "--out", "new", "--resume", timeout=120)
    assert done.returncode == 0, done.stderr
    one, other = load_file(made.place / "whole/model.safetensors"), load_file(made.place / "new/model.safetensors")
    assert all(other[name].equal(tensor) for name, tensor in one.items())
    assert not half_written(made.place / "new")


@STOPPED
def test_a_sweep_takes_its_runs_along(task, bench, number):
    made = bench(task)
    words = [
        "train",
        task,
        "--data",
        made.words["data"],
        *made.words["flags"],
        "--epochs",
        "500",
        "--seeds",
        "2",
        "--jobs",
        "2",
    ]
    started = Started(*words, "--out", "sweep")
    started.wait_for(lambda: list(made.place.glob("sweep/*/last.ckpt")))
    expect_one_line(started.stop(number), number, started.process.returncode)
