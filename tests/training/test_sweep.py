"""Several runs by one call: which, where, side by side, and what happens when one fails or all are stopped."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from foveal.errors import FovealError
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.training import sweep
from foveal.training.sweep import Run, Status, diverged, expect_sweep_folder, plan, run_all

STAND_IN = """
import json, os, pathlib, signal, sys, time
words = sys.argv[1:]
given = dict(zip(words, words[1:]))
out = pathlib.Path(given["--out"])
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: ((out.parent / f"{out.name}.interrupted").write_text(""), os._exit(130)))
began = time.time()
out.mkdir(exist_ok=True)
(out / "recipe.yaml").write_text(pathlib.Path(given["--recipe"]).read_text())
(out / "began").write_text(" ".join(words))
while (out.parent / "together").exists() and len(list(out.parent.glob("*/began"))) < 2:
    time.sleep(0.01)
if (out.parent / "slow").exists():
    print("no line of an epoch", file=sys.stderr, flush=True)
    print("epoch 2 of 9 · val_score 0.5 · images/s 7 · left 63 s", file=sys.stderr, flush=True)
    (out / "slow").write_text("")
    time.sleep(600)
if (out.parent / f"fail-{out.name}").exists():
    print("first line", file=sys.stderr)
    sys.exit("foveal: error: it went wrong")
if (out.parent / f"diverge-{out.name}").exists():
    from foveal.training.diverged import DIVERGED
    sys.exit(f"foveal: error: {DIVERGED}")
time.sleep(0.3)
times = {"began": began, "ended": time.time()}
scored = {"figure": "val_loss", "val_loss": 0.25} if (out.parent / "loss").exists() else {"val_score": 0.5}
result = {"model": "icam", **scored, "epoch": 3, "seconds": 2.0, **times}
(out / "result.json").write_text(json.dumps(result))
(out / "model.safetensors").write_bytes(b"")
(out / "threads").write_text(os.environ["OMP_NUM_THREADS"])
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder, and in place of foveal a program that does nothing but say so."""
    program = tmp_path / "stand_in.py"
    program.write_text(STAND_IN)
    real = subprocess.Popen

    def popen(command, **options):
        assert command[1:5] == ["-m", "foveal", "train", "classify"]
        return real([sys.executable, str(program), *command[5:]], **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    return tmp_path


def test_plan():
    runs = list(plan("classify", ClassifyRecipe(lr=0.5), Path("x"), [0, 2], [7, 8]))
    assert [(run.folder.name, run.recipe.fold, run.recipe.seed) for run in runs] == [
        ("fold0-seed7", 0, 7),
        ("fold0-seed8", 0, 8),
        ("fold2-seed7", 2, 7),
        ("fold2-seed8", 2, 8),
    ]
    assert {run.recipe.lr for run in runs} == {0.5}
    assert [run.folder.name for run in plan("classify", ClassifyRecipe(), Path("x"), [None], [0, 1])] == [
        "seed0",
        "seed1",
    ]


def test_side_by_side_and_not_again(folder, capsys):
    runs = list(plan("classify", ClassifyRecipe(), folder, [None], range(3)))
    (folder / "together").write_text("")
    run_all(runs, ["--device", "cpu"], jobs=2)
    facts = [json.loads((run.folder / "result.json").read_text()) for run in runs]
    assert facts[1]["began"] < facts[0]["ended"], "two at a time"
    assert facts[2]["began"] >= min(fact["ended"] for fact in facts[:2]), "and no more"
    assert sorted(capsys.readouterr().err.splitlines()) == [
        f"seed{seed}: validation score 0.5000 at epoch 3, 2 s" for seed in range(3)
    ]
    words = (runs[0].folder / "began").read_text().split()
    assert words[-3:] == ["--resume", "--device", "cpu"]
    assert not list(folder.glob("seed*.yaml"))
    (runs[0].folder / "began").unlink()
    run_all(runs, [], jobs=1)
    assert not (runs[0].folder / "began").exists()


def test_a_run_is_summed_up_by_the_figure_of_its_task(folder, capsys):
    (folder / "loss").write_text("")
    run_all(list(plan("classify", ClassifyRecipe(), folder, [None], [7])), [], jobs=1)
    assert capsys.readouterr().err == "seed7: validation loss 0.2500 at epoch 3, 2 s\n"


@pytest.mark.parametrize(
    ("cores", "allowed", "jobs", "expected"),
    [(2, None, 1, 2), (2, None, 2, 1), (2, None, 3, 1), (8, None, 3, 2), (8, "1", 2, 1), (8, "x", 2, 4)],
)
def test_runs_side_by_side_do_not_fight_for_cores(monkeypatch, cores, allowed, jobs, expected):
    monkeypatch.setattr(sweep, "cores", lambda: cores)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if allowed is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", allowed)
    assert sweep.threads(jobs) == expected


def test_one_that_fails_is_named_and_the_others_go_on(folder):
    runs = list(plan("classify", ClassifyRecipe(), folder, [None], range(3)))
    (folder / "fail-seed1").write_text("")
    with pytest.raises(
        FovealError, match=r"1 of 3 runs failed; seed1: foveal: error: it went wrong; .*continue with --resume"
    ):
        run_all(runs, [], jobs=1)
    assert (runs[2].folder / "result.json").exists()
    assert (folder / "seed1.txt").read_text().splitlines() == ["first line", "foveal: error: it went wrong"]
    (folder / "fail-seed1").unlink()
    run_all(runs, [], jobs=1)
    assert (runs[1].folder / "result.json").exists()


def test_one_that_diverges_is_an_outcome_where_that_is_asked_for(folder):
    runs = list(plan("classify", ClassifyRecipe(), folder, [None], range(2)))
    (folder / "diverge-seed0").write_text("")
    with pytest.raises(
        FovealError, match="1 of 2 runs failed; seed0: foveal: error: training: expected finite numbers"
    ):
        run_all(runs, [], jobs=1)
    run_all(runs, [], jobs=1, diverging=True)
    assert [diverged(run) for run in runs] == [True, False]
    (runs[0].folder / "began").unlink()
    run_all(runs, [], jobs=1, diverging=True)
    assert not (runs[0].folder / "began").exists(), "it would diverge again"
    other = [Run(run.task, run.recipe.changed(lr=0.5), run.folder) for run in runs]
    with pytest.raises(FovealError, match="expected the options it was begun with, got others for lr"):
        run_all(other, [], jobs=1, diverging=True)
    (folder / "fail-seed1").write_text("")
    (runs[1].folder / "result.json").unlink()
    with pytest.raises(FovealError, match="1 of 2 runs failed; seed1: foveal: error: it went wrong"):
        run_all(runs, [], jobs=1, diverging=True)


def test_runs_of_another_recipe_are_refused(folder):
    run_all([Run("classify", ClassifyRecipe(), folder / "seed0")], [], jobs=1)
    other = [
        Run("classify", ClassifyRecipe(lr=0.5, seed=1), folder / "seed1"),
        Run("classify", ClassifyRecipe(lr=0.5), folder / "seed0"),
    ]
    with pytest.raises(FovealError, match="expected the options it was begun with, got others for lr"):
        run_all(other, [], jobs=1)
    assert not (folder / "seed1").exists()


def wait_for(condition):
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end, "nothing happens"
        time.sleep(0.02)


def when(condition, act):
    """In a thread: once this holds, do that to the main thread."""

    def watch():
        wait_for(condition)
        act()

    threading.Thread(target=watch, daemon=True).start()


def interrupt():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def test_ctrl_c_stops_those_under_way_and_begins_no_other(folder):
    (folder / "slow").write_text("")
    runs = list(plan("classify", ClassifyRecipe(), folder, [None], range(5)))
    when(lambda: all((run.folder / "slow").exists() for run in runs[:2]), interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_all(runs, [], jobs=2)
    assert sorted(path.name for path in folder.glob("*.interrupted")) == ["seed0.interrupted", "seed1.interrupted"]
    assert not any(run.folder.exists() for run in runs[2:])


def test_a_log_says_which_runs_are_under_way_their_epoch_and_the_time_left(folder, monkeypatch, capsys):
    """Of 4 runs one has ended before, two are slow, and one waits."""
    runs = list(plan("classify", ClassifyRecipe(), folder, [None], range(4)))
    run_all(runs[:1], [], jobs=1)
    (folder / "slow").write_text("")
    lines = []
    monkeypatch.setattr(sweep, "_say", lines.append)
    monkeypatch.setattr(sweep, "FIRST", 0.0)
    monkeypatch.setattr(sweep, "RAREST", 0.0)
    pace = "epoch 2 of 9, 63 s left"
    says = f"1 of 4 runs done; seed1: {pace}; seed2: {pace}"
    when(lambda: says in lines, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_all(runs, [], jobs=2)
    assert says in lines
    assert not any("no line of an epoch" in line for line in lines)


def test_status_by_hand():
    status = Status(total=3)
    assert status.line() == "0 of 3 runs done; none under way"
    status.lines |= {"seed1": "starting", "seed0": "epoch 1 of 5, 3 min left"}
    status.done = 1
    assert status.line() == "1 of 3 runs done; seed0: epoch 1 of 5, 3 min left; seed1: starting"


@pytest.mark.parametrize(
    ("line", "pace"),
    [
        ("epoch 3 of 5 · loss 0.1 · images/s 12 · left 4 s\n", "epoch 3 of 5, 4 s left"),
        ("epoch 3 of 5 · loss 0.1\n", "epoch 3 of 5"),
    ],
)
def test_the_pace_of_a_run(line, pace):
    assert sweep._pace(line) == pace


def test_a_foreign_folder_is_left_alone(folder):
    place = folder / "cv"
    runs = list(plan("classify", ClassifyRecipe(), place, [None], range(2)))
    expect_sweep_folder(place, resume=False, runs=runs)  # which does not exist
    place.mkdir()
    expect_sweep_folder(place, resume=False, runs=runs)
    (place / "letter.txt").write_text("mine")
    with pytest.raises(FovealError, match="one with files in it; add --resume, or choose another --out"):
        expect_sweep_folder(place, resume=False, runs=runs)
    with pytest.raises(FovealError, match="expected the runs of this sweep, got other files; choose another --out"):
        expect_sweep_folder(place, resume=True, runs=runs)
    (place / "seed0.yaml").write_text("")  # a sweep that was killed before its first run had begun
    expect_sweep_folder(place, resume=True, runs=runs)
    with pytest.raises(FovealError, match="a new or empty one, got a file"):
        expect_sweep_folder(place / "letter.txt", resume=True)


def test_a_sweep_that_is_terminated_stops_runs_that_hear_no_ctrl_c(folder):
    """As in the background of a script, where SIGINT is ignored, and its children inherit that."""
    (folder / "slow").write_text("")
    runs = list(plan("classify", ClassifyRecipe(), folder, [None], range(1)))
    program = folder / "stand_in.py"
    program.write_text(program.read_text().replace("(signal.SIGINT, signal.SIGTERM)", "(signal.SIGTERM,)"))
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN)
    terminated = signal.signal(signal.SIGTERM, signal.default_int_handler)
    when((runs[0].folder / "slow").exists, lambda: os.kill(os.getpid(), signal.SIGTERM))
    try:
        with pytest.raises(KeyboardInterrupt):
            run_all(runs, [], jobs=1)
    finally:
        signal.signal(signal.SIGINT, heard)
        signal.signal(signal.SIGTERM, terminated)
    assert (folder / "seed0.interrupted").exists()
