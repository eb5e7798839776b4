"""Several runs by one call: which, where, side by side, and what happens when one fails or all are stopped."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from foveal.errors import FovealError
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.train import sweep as multi_label
from foveal.train.sweep import Run, diverged, plan, run_all

STAND_IN = """
import json, os, pathlib, signal, sys, time
words = sys.argv[1:]
given = dict(zip(words, words[1:]))
out = pathlib.Path(given["--out"])
signal.signal(signal.SIGINT, lambda *_: ((out.parent / f"{out.name}.interrupted").write_text(""), os._exit(130)))
began = time.time()
out.mkdir(exist_ok=True)
(out / "recipe.yaml").write_text(pathlib.Path(given["--recipe"]).read_text())
(out / "began").write_text(" ".join(words))
if (out.parent / "slow").exists():
    time.sleep(20)
if (out.parent / f"fail-{out.name}").exists():
    print("first line", file=sys.stderr)
    sys.exit("foveal: error: it went wrong")
if (out.parent / f"diverge-{out.name}").exists():
    from foveal.train.diverged import DIVERGED
    sys.exit(f"foveal: error: {DIVERGED}")
time.sleep(0.3)
(out / "result.json").write_text(json.dumps({"val_score": 0.5, "epoch": 3, "seconds": 2.0, "began": began, "ended": time.time()}))
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
    runs = list(plan(ClassifyRecipe(lr=0.5), multi_label.Path("x"), [0, 2], [7, 8]))
    assert [(run.folder.name, run.recipe.fold, run.recipe.seed) for run in runs] == [
        ("fold0-seed7", 0, 7),
        ("fold0-seed8", 0, 8),
        ("fold2-seed7", 2, 7),
        ("fold2-seed8", 2, 8),
    ]
    assert {run.recipe.lr for run in runs} == {0.5}
    assert [run.folder.name for run in plan(ClassifyRecipe(), multi_label.Path("x"), [None], [0, 1])] == ["seed0", "seed1"]


def test_side_by_side_and_not_again(folder, capsys):
    runs = list(plan(ClassifyRecipe(), folder, [None], range(3)))
    run_all(runs, ["--device", "cpu"], jobs=2)
    facts = [multi_label.json.loads((run.folder / "result.json").read_text()) for run in runs]
    assert facts[1]["began"] < facts[0]["ended"], "two at a time"
    assert facts[2]["began"] >= min(fact["ended"] for fact in facts[:2]), "and no more"
    assert sorted(capsys.readouterr().err.splitlines()) == [f"seed{seed}: validation score 0.5000 at epoch 3, 2 s" for seed in range(3)]
    words = (runs[0].folder / "began").read_text().split()
    assert words[-3:] == ["--resume", "--device", "cpu"]
    assert not list(folder.glob("seed*.yaml"))
    (runs[0].folder / "began").unlink()
    run_all(runs, [], jobs=1)
    assert not (runs[0].folder / "began").exists()


@pytest.mark.parametrize(
    ("cores", "allowed", "jobs", "expected"),
    [(2, None, 1, 2), (2, None, 2, 1), (2, None, 3, 1), (8, None, 3, 2), (8, "1", 2, 1), (8, "x", 2, 4)],
)
def test_runs_side_by_side_do_not_fight_for_cores(monkeypatch, cores, allowed, jobs, expected):
    monkeypatch.setattr(multi_label, "cores", lambda: cores)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if allowed is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", allowed)
    assert multi_label.threads(jobs) == expected


def test_one_that_fails_is_named_and_the_others_go_on(folder):
    runs = list(plan(ClassifyRecipe(), folder, [None], range(3)))
    (folder / "fail-seed1").write_text("")
    with pytest.raises(FovealError, match=r"1 of 3 runs failed; seed1: foveal: error: it went wrong; .*go on with --resume"):
        run_all(runs, [], jobs=1)
    assert (runs[2].folder / "result.json").exists()
    assert (folder / "seed1.txt").read_text().splitlines() == ["first line", "foveal: error: it went wrong"]
    (folder / "fail-seed1").unlink()
    run_all(runs, [], jobs=1)
    assert (runs[1].folder / "result.json").exists()


def test_one_that_diverges_is_an_outcome_where_that_is_asked_for(folder):
    runs = list(plan(ClassifyRecipe(), folder, [None], range(2)))
    (folder / "diverge-seed0").write_text("")
    with pytest.raises(FovealError, match="1 of 2 runs failed; seed0: foveal: error: training: expected finite numbers"):
        run_all(runs, [], jobs=1)
    run_all(runs, [], jobs=1, diverging=True)
    assert [diverged(run) for run in runs] == [True, False]
    (runs[0].folder / "began").unlink()
    run_all(runs, [], jobs=1, diverging=True)
    assert not (runs[0].folder / "began").exists(), "it would diverge again"
    other = [Run(run.recipe.changed(lr=0.5), run.folder) for run in runs]
    with pytest.raises(FovealError, match="expected the settings it was begun with, got others for lr"):
        run_all(other, [], jobs=1, diverging=True)
    (folder / "fail-seed1").write_text("")
    (runs[1].folder / "result.json").unlink()
    with pytest.raises(FovealError, match="1 of 2 runs failed; seed1: foveal: error: it went wrong"):
        run_all(runs, [], jobs=1, diverging=True)


def test_runs_of_another_recipe_are_refused(folder):
    run_all([Run(ClassifyRecipe(), folder / "seed0")], [], jobs=1)
    other = [Run(ClassifyRecipe(lr=0.5, seed=1), folder / "seed1"), Run(ClassifyRecipe(lr=0.5), folder / "seed0")]
    with pytest.raises(FovealError, match="expected the settings it was begun with, got others for lr"):
        run_all(other, [], jobs=1)
    assert not (folder / "seed1").exists()


def test_ctrl_c_stops_those_under_way_and_begins_no_other(folder):
    (folder / "slow").write_text("")
    runs = list(plan(ClassifyRecipe(), folder, [None], range(5)))

    def interrupt():
        while not all((run.folder / "began").exists() for run in runs[:2]):
            time.sleep(0.02)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Timer(0.1, interrupt).start()
    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        run_all(runs, [], jobs=2)
    assert time.perf_counter() - began < 10
    assert sorted(path.name for path in folder.glob("*.interrupted")) == ["seed0.interrupted", "seed1.interrupted"]
    assert not any(run.folder.exists() for run in runs[2:])
