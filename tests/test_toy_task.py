"""A task costs one folder, and no edit anywhere else: `tests/toy` is a package of somebody else's,
and every command takes it.

PYTHONPATH is all that it takes to install it: its entry points name the task and the model.
"""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

ROOT = Path(__file__).parent.parent
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests/toy"))),
    "OMP_NUM_THREADS": "1",
}
WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; from foveal.app.cli import main; sys.exit(main(sys.argv[1:]))"
IMAGES, EPOCHS = 200, 60


def foveal(*arguments, start=("-m", "foveal"), status=0):
    command = [sys.executable, *start, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=240, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def python(code, *arguments):
    return foveal(*arguments, start=("-c", code))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A data set, a run that nobody stopped, and its exported file."""
    place = tmp_path_factory.mktemp("toy")
    drawn = "import json, sys\nfrom pathlib import Path\nfrom toy_task.data import draw\n"
    drawn += f"print(json.dumps(draw(Path(sys.argv[1]), {IMAGES})))"
    (place / "centres.json").write_text(python(drawn, place / "discs"), encoding="utf-8")
    foveal("train", "gauge", "--recipe", "small", "--data", place / "discs", "--out", place / "run")
    foveal("export", place / "run", "--out", place / "gauge.onnx")
    return place


def table(file):
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def figures(folder):
    return next(iter(json.loads((folder / "figures.json").read_text(encoding="utf-8")).values()))


def test_it_learns_to_read(place):
    result = json.loads((place / "run/result.json").read_text(encoding="utf-8"))
    assert result["epoch"] == EPOCHS
    assert result["val_loss"] < 0.002  # a guess of the mean has 1/12
    summary = foveal("evaluate", place / "run", "--out", place / "report")
    assert "| mae | r2 |" in summary
    found = figures(place / "report")
    assert found["r2"] > 0.97
    assert found["mae"] < 0.04


@pytest.mark.slow
def test_killed_and_resumed_it_is_the_run_that_nobody_stopped(place, tmp_path):
    train = ["train", "gauge", "--recipe", "small", "--data", str(place / "discs"), "--out", str(tmp_path / "run")]
    with subprocess.Popen(
        [sys.executable, "-m", "foveal", *train], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("epoch 3 "):
                break
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "run/model.safetensors").exists()
    assert "add --resume" in foveal(*train, status=2)
    foveal(*train, "--resume")
    whole, resumed = (load_file(folder / "run/model.safetensors") for folder in (place, tmp_path))
    assert whole.keys() == resumed.keys()
    assert all(whole[name].tobytes() == resumed[name].tobytes() for name in whole)
    losses = [[row["loss"] for row in table(folder / "run/log.csv")] for folder in (place, tmp_path)]
    assert losses[0] == losses[1]
    assert len(losses[1]) == EPOCHS


def test_it_predicts_from_the_run_and_from_python(place):
    files = [place / "discs/0004.png", place / "discs/0009.png"]
    truth = {row["file"]: float(row["value"]) for row in table(place / "discs/values.csv")}
    rows = list(csv.DictReader(foveal("predict", place / "run", *files, "--digits", "5").splitlines()))
    for file, row in zip(files, rows, strict=True):
        assert row["file"] == str(file)
        assert abs(float(row["value"]) - truth[file.name]) < 0.08
    code = "import sys, foveal\nmodel = foveal.load(sys.argv[1])\nassert model.task == 'gauge'\n"
    code += "print(*(f'{one.value:.5f}' for one in model.predict(sys.argv[2:])))"
    assert python(code, place / "run", *files).split() == [row["value"] for row in rows]


@pytest.mark.slow
def test_it_explains_by_looking_at_the_disc(place, tmp_path):
    centres = json.loads((place / "centres.json").read_text(encoding="utf-8"))
    facts = [
        json.loads(
            foveal("explain", place / "run", place / "discs/0004.png", "--json", "--out", tmp_path / "looked.png")
        )
    ]
    code = "import json, sys, foveal\nmodel = foveal.load(sys.argv[1])\n"
    code += "print(json.dumps([model.explain(file).facts for file in sys.argv[2:]]))"
    numbers = (4, 9, 14, 19)
    facts += json.loads(python(code, place / "run", *(place / f"discs/{number:04}.png" for number in numbers)))
    assert facts[0] == facts[1]
    for number, found in zip(numbers, facts[1:], strict=True):
        x, y = centres[number]
        assert np.hypot(found["x"] - x, found["y"] - y) < 6  # the disc's radius is 4, and so is a patch's side
    assert (tmp_path / "looked.png").read_bytes().startswith(b"\x89PNG")


def test_the_exported_file_carries_its_card_and_its_proof(place):
    shown = foveal("show", place / "gauge.onnx")
    assert "task: gauge" in shown
    assert "largest: " in shown
    assert str(place) not in shown.partition("\n")[2]  # no folder of the machine that trained
    assert "already" in foveal("export", place / "gauge.onnx", "--out", place / "again.onnx", status=2)


@pytest.mark.slow
def test_the_exported_file_predicts_and_is_evaluated_where_torch_cannot_be_imported(place, tmp_path):
    files = [place / "discs/0004.png", place / "discs/0009.png"]
    ours = foveal("predict", place / "run", *files, "--format", "jsonl")
    theirs = foveal("predict", place / "gauge.onnx", *files, "--format", "jsonl", start=("-c", WITHOUT_TORCH))
    for one, other in zip(map(json.loads, ours.splitlines()), map(json.loads, theirs.splitlines()), strict=True):
        assert one["file"] == other["file"]
        assert abs(one["value"] - other["value"]) < 1e-5
    data = ("--data", place / "discs")
    foveal("evaluate", place / "gauge.onnx", *data, "--out", tmp_path / "onnx", start=("-c", WITHOUT_TORCH))
    foveal("evaluate", place / "run", *data, "--out", tmp_path / "torch")
    assert figures(tmp_path / "onnx") == pytest.approx(figures(tmp_path / "torch"), abs=1e-6)


@pytest.mark.slow
def test_it_is_timed_beside_its_preset_and_beside_somebody_elses_graph(place, tmp_path):
    (tmp_path / "peer.onnx").write_bytes((place / "gauge.onnx").read_bytes())
    names = [place / "gauge.onnx", "gauge-tiny", "--peer", tmp_path / "peer.onnx"]
    foveal("bench", "models", *names, "--rounds", "2", "--out", tmp_path)
    written = next(tmp_path.glob("*.md")).read_text(encoding="utf-8")
    assert "gauge-tiny" in written
    assert "peer" in written
    assert "ms" in written


COUNTED = """
import sys, foveal, toy_model
from foveal.training.module import TaskModule
calls, steps, forward = [], [], toy_model.Glance.forward
def counted(self, tokens):
    calls.append(self.training)
    return forward(self, tokens)
toy_model.Glance.forward = counted
TaskModule.records = lambda *_: len(sys.argv) > 3  # on a CPU what would be replayed is computed
loss = TaskModule.recorded_loss
def seen(self, *tensors):
    steps.append(self.cuda_graphs is not None)
    return loss(self, *tensors)
TaskModule.recorded_loss = seen
"""
COUNTED += "foveal.train('gauge', data=sys.argv[1], out=sys.argv[2], epochs=2, config={'glances': 3}, {changes})\n"
COUNTED += "print(sum(calls), len(steps), sum(steps))"


@pytest.mark.slow
def test_the_harness_brings_gradient_checkpointing_and_recorded_steps(place, tmp_path):
    """The same weights, bit for bit; of 120 images 6 steps an epoch, whose 3 glances are computed once or twice."""
    found, plain = {}, None
    for name, changes, more in (("plain", "", ()), ("again", "checkpointing=True", ()), ("recorded", "", ("on",))):
        folder = tmp_path / name
        found[name] = python(COUNTED.replace("{changes}", changes), place / "discs", folder, *more).split()
        weights = load_file(folder / "model.safetensors")
        plain = weights if plain is None else plain
        assert all(weights[key].tobytes() == plain[key].tobytes() for key in plain)
    assert found == {"plain": ["36", "12", "0"], "again": ["72", "12", "0"], "recorded": ["36", "12", "12"]}


@pytest.mark.slow
def test_several_seeds_are_one_sweep(place, tmp_path):
    said = foveal(
        "train", "gauge", "--data", place / "discs", "--epochs", "2", "--seeds", "2", "--out", tmp_path / "sweep"
    )
    assert "| 2 |" in said
    assert (tmp_path / "sweep/summary.md").exists()
    assert (tmp_path / "sweep/seed1/model.safetensors").exists()


@pytest.mark.slow
def test_what_cannot_be_is_one_line(place, tmp_path):
    assert "no task is called 'guage'; the nearest is 'gauge'" in foveal("train", "guage", status=2)
    assert "no option" in foveal("train", "gauge", "--recipe", _recipe(tmp_path, "eposchs: 3"), status=2)
    (tmp_path / "empty").mkdir()
    assert "values.csv" in foveal("train", "gauge", "--data", tmp_path / "empty", "--out", tmp_path / "run", status=2)
    assert foveal("predict", place / "run", "nothing.png", status=2).count("\n") <= 1
    folds = foveal("train", "gauge", "--data", place / "discs", "--folds", "all", "--out", tmp_path / "all", status=2)
    assert folds.endswith("--folds: expected data with folds, got data without\n")
    blind = ("--checkpointing", "--config", "{glances: 0}", "--data", place / "discs", "--out", tmp_path / "blind")
    assert "a model with a list of blocks, got gauge-tiny, which has none" in foveal("train", "gauge", *blind, status=2)
    assert not (tmp_path / "blind").exists()


def _recipe(folder, text):
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    return folder / "mine.yaml"


@pytest.mark.slow
def test_python_knows_it_as_it_knows_the_others(place, tmp_path):
    code = "import sys, foveal\nfrom foveal.tasks.task import task_names\nassert 'gauge' in task_names()\n"
    code += "assert foveal.list_models('gauge*') == ['gauge-tiny'], foveal.list_models('gauge*')\n"
    code += "run = foveal.train('gauge', data=sys.argv[1], epochs=2, out=sys.argv[2])\n"
    code += "model = run.model\nfigures = model.evaluate(split='val').figures\nassert set(figures) == {'mae', 'r2'}\n"
    code += "assert model.export(sys.argv[2] + '/g.onnx').proof['largest'] < 1e-4\n"
    code += "model.save_pretrained(sys.argv[2] + '/hub')\nagain = foveal.load(sys.argv[2] + '/hub')\n"
    code += "assert again.evaluate(split='val').figures == figures\nprint(run.summary())"
    assert "mean squared error" in python(code, place / "discs", tmp_path / "run")
