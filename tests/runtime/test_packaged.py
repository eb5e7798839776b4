"""The weights that come with foveal."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from foveal.data.pipes import KINDS, render
from foveal.errors import FovealError
from foveal.models.store import model_file
from foveal.runtime.packaged import DEFAULT, EXPORTED, WEIGHTS, names, packaged
from foveal.tasks.load import load


@pytest.mark.parametrize(
    ("name", "parameters", "least"), [("icam-fast-pipes", 44_519, 0.85), ("icam-pipes", 31_793, 0.64)]
)
def test_they_are_small_and_describe_themselves(name, parameters, least):
    file = packaged(name)
    assert file == WEIGHTS / f"{name}.safetensors"
    assert file.stat().st_size <= 200_000
    model = load(name, device="cpu")
    card = model.card
    assert card.format == 1
    assert card.classes == model.classes == KINDS
    assert card.multi_label
    assert "Not good for judging a real pipe" in card.note
    assert f"--init-from {name}" in card.note
    assert card.recipe["data"] == "pipes:24000"
    assert {"commit", "gpu", "torch"} <= card.origin.keys()
    assert sum(parameter.numel() for parameter in model.network.parameters()) == parameters
    assert card.metrics["test"]["map"] > least


def test_the_better_one_is_taken_where_none_is_named():
    assert DEFAULT == "icam-fast-pipes"


@pytest.mark.parametrize("suffix", ["", EXPORTED])
def test_it_finds_what_is_rendered(suffix):
    """Frames of seeds that it was not trained on: of the kinds that it knows well,
    the right one is likelier where it is than where it is not.
    """
    model = load(packaged(DEFAULT, suffix) if suffix else DEFAULT, device="cpu")
    frames = [render(9_000_000 + seed, 224) for seed in range(60)]
    truth = np.array([[kind in {finding.kind for finding in frame.findings} for kind in KINDS] for frame in frames])
    found = np.array([answer.probability for answer in model.predict([frame.image for frame in frames])])
    assert found[truth].mean() > 3 * found[~truth].mean()


@pytest.mark.parametrize("name", names())
def test_the_exported_file_is_there_too_and_predicts_the_same(name):
    exported, trained = load(packaged(name, EXPORTED)), load(name, device="cpu")
    assert exported.is_exported
    assert exported.exported.proof
    assert exported.classes == trained.classes
    frames = [render(9_000_000 + seed, 224).image for seed in range(3)]
    if trained.task == "segment":
        assert exported.card.offsets == trained.card.offsets
        one, other = (np.stack([answer.label_map for answer in model.predict(frames)]) for model in (exported, trained))
        assert (one != other).mean() <= 0.001
        return
    assert exported.card.threshold == trained.card.threshold
    one, other = (np.array([answer.probability for answer in model.predict(frames)]) for model in (exported, trained))
    assert np.abs(one - other).max() < 1e-4


def test_names(tmp_path, monkeypatch):
    assert packaged("icam-pipes.safetensors") is None
    assert packaged("../weights/icam-pipes") is None
    with pytest.raises(FovealError, match="safetensors file of foveal"):
        model_file("icam-tubes")
    monkeypatch.chdir(tmp_path)
    (tmp_path / DEFAULT).mkdir()
    with pytest.raises(FovealError, match="a run's folder with a"):
        model_file(DEFAULT)  # a run of the user's that has not ended
    (tmp_path / DEFAULT).rmdir()
    (tmp_path / DEFAULT).write_text("a file of the user's")
    assert model_file(DEFAULT).read_text() == "a file of the user's"  # what is there goes before what is shipped


@pytest.mark.parametrize("words", [(), ("run",), ("run", "name", "folder", "more")], ids=len)
def test_the_script_that_packages_says_what_it_takes(words):
    pytest.importorskip("torch")
    script = Path(__file__).parents[2] / "scripts/package_weights.py"
    done = subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True, check=False)
    got = " ".join(words) or "nothing"
    assert done.stderr == f"error: package_weights.py: expected RUN NAME, RUN NAME EVALUATION, or --again, got {got}\n"
    assert done.returncode == 1
