"""The weights that come with foveal."""

import numpy as np
import pytest

from foveal.data.pipes import KINDS, render
from foveal.errors import FovealError
from foveal.models.store import load_model, model_file
from foveal.runtime.packaged import DEFAULT, WEIGHTS, packaged
from foveal.tasks.classify.predict_torch import TorchClassifier


@pytest.mark.parametrize(("name", "weights", "least"), [("icam-fast-pipes", 44_519, 0.85), ("icam-pipes", 31_793, 0.64)])
def test_they_are_small_and_describe_themselves(name, weights, least):
    file = packaged(name)
    assert file == WEIGHTS / f"{name}.safetensors"
    assert file.stat().st_size <= 200_000
    model, card = load_model(name)
    assert card.classes == KINDS
    assert card.multi_label
    assert "Not good for judging a real pipe" in card.note
    assert f"--start {name}" in card.note
    assert card.recipe["data"] == "pipes:24000"
    assert {"commit", "gpu", "torch"} <= card.origin.keys()
    assert sum(parameter.numel() for parameter in model.parameters()) == weights
    assert card.metrics["test"]["map"] > least


def test_the_better_one_is_taken_where_none_is_named():
    assert DEFAULT == "icam-fast-pipes"


def test_it_finds_what_is_drawn():
    """Frames of seeds that it was not trained on: of the kinds that it knows well, the right one is likelier where it is than where it is not."""
    inspector = TorchClassifier.load(DEFAULT, "cpu")
    frames = [render(9_000_000 + seed, 224) for seed in range(60)]
    answers = list(inspector.inspect((str(place), frame.image) for place, frame in enumerate(frames)))
    truth = np.array([[kind in {finding.kind for finding in frame.findings} for kind in KINDS] for frame in frames])
    said = np.array([answer.probability for answer in answers])
    assert said[truth].mean() > 3 * said[~truth].mean()


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
