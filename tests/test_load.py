"""`foveal.load`: whatever names a model opens it, and a name that is mistyped is never answered by another."""

import json
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from cards import classify_card
from tasks.translate.translator import made

from foveal.errors import FovealError
from foveal.models.store import describe, save_model
from foveal.models.zoo import create
from foveal.runtime import packaged
from foveal.tasks import load as load_module
from foveal.tasks.load import find_model, is_model, list_models, load
from foveal.tasks.train import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run's folder with a classifier."""
    folder = tmp_path_factory.mktemp("runs") / "tiles"
    torch.manual_seed(0)
    network = create("icam-31k", classes=3, image=28, patch=14).eval()
    family, config = describe(network)
    save_model(
        network,
        folder / packaged.FILE,
        classify_card("icam-31k", family, config, ("a", "b", "c"), size=28, note="mine"),
    )
    return folder


@pytest.fixture(scope="module")
def exported(run):
    return load(run, device="cpu").export(run.parent / "m.onnx").path


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    network, card = made()
    file = tmp_path_factory.mktemp("translator") / "t.safetensors"
    save_model(network, file, card)
    return file


def answers(model):
    random = np.random.default_rng(0)
    return np.array(
        [one.probability for one in model.predict([random.integers(0, 256, (28, 28, 3), np.uint8) for _ in range(3)])]
    )


def refusal(name, **options):
    with pytest.raises(FovealError) as caught:
        load(name, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- every kind -------------------------------------------------------------------------------------------------------


def test_a_run_its_file_and_its_export_are_one_model(run, exported):
    models = [
        load(run, device="cpu"),
        load(str(run), device="cpu"),
        load(run / packaged.FILE, device="cpu"),
        load(exported),
    ]
    for model in models:
        assert (model.task, model.classes, model.card.note, model.random) == (
            "classify",
            ("a", "b", "c"),
            "mine",
            False,
        )
        assert np.allclose(answers(model), answers(models[0]), atol=1e-5)
    assert [model.is_exported for model in models] == [False, False, False, True]
    assert models[0].folder() == run
    assert models[2].folder() == run
    assert not models[0].network.training
    reports = [model.report_folder("evaluation-test") for model in models]
    alone = run / "evaluation-test"
    assert reports == [alone, alone, alone, exported.parent / "m-evaluation-test"]  # no file writes over another's


def test_the_report_on_weights_of_the_package_is_named_after_them():
    reports = {str(load(name, device="cpu").report_folder("evaluation-test")) for name in packaged.names()}
    assert reports == {
        "icam-fast-pipes-evaluation-test",
        "icam-pipes-evaluation-test",
        "icam-seg-pipes-evaluation-test",
    }


def test_weights_of_the_package():
    for name in packaged.names():
        model = load(name, device="cpu")
        task = "segment" if "seg" in name else "classify"
        assert (model.task, model.random, model.name.endswith(f"{name}.safetensors")) == (task, False, True)


def test_without_torch_the_packages_exported_file_is_opened():
    code = (
        "import sys\nfor name in ('torch', 'safetensors'): sys.modules[name] = None\n"
        "import importlib.util as util\nfind = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name in ('torch', 'safetensors') else find(name, *more)\n"
        "from foveal.tasks.load import default_model, load, list_models\n"
        "model = load('icam-pipes')\nprint(model.is_exported, default_model().name, *list_models('*'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "icam-fast-pipes.onnx", *packaged.names()], done.stderr


def test_a_preset_has_random_weights_the_same_each_time():
    model = load("icam-30k", device="cpu", config={"classes": 5, "image": 112})
    assert model.random
    assert (len(model.classes), model.network.config.image) == (5, 112)
    again = load("icam-30k", device="cpu", config={"classes": 5, "image": 112})
    assert all(
        torch.equal(one, other)
        for one, other in zip(model.network.parameters(), again.network.parameters(), strict=True)
    )
    assert load("transformer-tiny", device="cpu").task == "translate"


def test_random_weights_answer_nothing_and_stay_random_in_a_file(tmp_path):
    model = load("icam-30k", device="cpu", config={"classes": 5, "image": 112})
    black, says = np.zeros((112, 112, 3), np.uint8), "expected a trained model, got a preset with random weights"
    for call in (model.predict, model.explain):
        with pytest.raises(FovealError, match=f"^icam-30k: {says}; foveal train makes one of it$"):
            call(black)
    with pytest.raises(FovealError, match=f"^transformer-tiny: {says}"):
        load("transformer-tiny", device="cpu").translate("one")
    saved = load(model.save_pretrained(tmp_path / "saved"), device="cpu")
    exported = load(model.export(tmp_path / "m.onnx").path)
    for again in (saved, exported):
        assert again.random
        with pytest.raises(FovealError, match=f"^{again.path}: expected a trained model, got random weights"):
            again.predict(black)
    assert repr(saved).endswith(", random weights)")
    text = (load("transformer-tiny", device="cpu").save_pretrained(tmp_path / "t") / "README.md").read_text()
    assert "A model that translates, with random weights: nobody trained it." in text


def test_a_translator_says_its_task_itself(translator):
    model = load(translator, device="cpu")
    assert (model.task, model.classes) == ("translate", ())
    assert isinstance(model.translate("one two"), str)
    assert len(model.translate(["one", "two"])) == 2


def test_a_grey_array_is_one_image(run):
    (found,) = load(run, device="cpu").predict(np.zeros((31, 37), np.uint8))
    assert (found.file, found.error) == ("image 0", "")


def test_a_home_folder(run, monkeypatch):
    monkeypatch.setenv("HOME", str(run.parent))
    assert load("~/tiles", device="cpu").classes == ("a", "b", "c")


# --- the hub ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch, run):
    """In place of huggingface_hub, a library that knows one repository."""
    library, calls = ModuleType("huggingface_hub"), []

    def download(repo, file):
        calls.append(("download", repo, file))
        if repo != "ada/tiles":
            raise OSError(f"404: no repository {repo},\nnor anything like it")
        return str(run / file)

    def upload_folder(repo_id, folder_path, **options):
        calls.append(
            ("upload", repo_id, sorted(path.name for path in load_module.Path(folder_path).iterdir()), options)
        )
        return f"https://hub/{repo_id}/commit/1"

    library.hf_hub_download, library.upload_folder = download, upload_folder
    library.create_repo = lambda repo, exist_ok: calls.append(("create", repo, exist_ok))
    monkeypatch.setitem(sys.modules, "huggingface_hub", library)
    return calls


def test_an_id_on_the_hub(hub, capsys):
    assert load("hf://ada/tiles", device="cpu").classes == ("a", "b", "c")
    assert hub == [("download", "ada/tiles", "model.safetensors")]
    assert capsys.readouterr().err == "asking the hub for ada/tiles\n"


def test_an_id_that_nobody_has(hub):
    says = refusal("hf://ada/tilse")
    assert says == (
        "the model hf://ada/tilse: expected OWNER/NAME of a model on the hub that can be reached, got 404: no "
        "repository ada/tilse, nor anything like it"
    )


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("runs/tilse", "; the nearest is runs/tiles"),
        ("rnus/tiles", "; the nearest is runs/tiles"),  # the folder is mistyped as well
        ("runs/inspector", "; the nearest is runs/inspector.onnx"),
        ("zzz/qqq", ""),
    ],
)
def test_a_mistyped_run_is_never_looked_up(typed, near, hub, tmp_path, monkeypatch):
    (tmp_path / "runs/tiles").mkdir(parents=True)
    (tmp_path / "runs/notes-of-tilse").mkdir()  # no run
    (tmp_path / "runs/tiles/model.safetensors").touch()
    (tmp_path / "runs/inspector.onnx").touch()
    monkeypatch.chdir(tmp_path)
    says = f"the model {typed}: expected a file or a run's folder that exists, got none there"
    assert refusal(typed) == f"{says}{near}; hf://{typed} opens it from the hub"
    assert "hub" not in refusal(f"./{typed}")  # nobody's id
    assert "hub" not in refusal("/gone")
    assert hub == []


def test_to_the_hub(hub, run):
    assert load(run, device="cpu").push_to_hub("ada/new", commit_message="first") == "https://hub/ada/new/commit/1"
    files = ["README.md", "config.json", "model.safetensors"]
    assert hub == [("create", "ada/new", True), ("upload", "ada/new", files, {"commit_message": "first"})]


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert (
        refusal("hf://ada/tiles")
        == "the model hf://ada/tiles: this needs huggingface_hub, which is not installed; pip install foveal[hub]"
    )


def test_without_torch_a_preset_is_told_from_a_mistyped_name(monkeypatch):
    monkeypatch.setattr(load_module, "_has_torch", lambda: False)
    assert refusal("icam-31k") == (
        "the model icam-31k: expected icam-fast-pipes, icam-pipes, icam-seg-pipes, a file or a run's folder, got "
        "another name, without torch; presets need it: pip install foveal[torch]"
    )


def test_the_figures_of_a_run_are_those_of_its_splits_too(tmp_path):
    bleu = {"value": 41.3, "low": 40.1, "high": 42.7, "signature": "nrefs:1"}
    result = {"model": "m", "seed": 3, "val_score": 0.7, "done": True, "val": {"loss": 1.5}, "test": {"bleu": bleu}}
    assert Run("translate", tmp_path, result).figures == {
        "seed": 3,
        "val_score": 0.7,
        "val_loss": 1.5,
        "test_bleu": 41.3,
    }


# --- what cannot be opened --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("icam-31", "no model is called 'icam-31'; the nearest is 'icam-31k'; there are "),
        ("icam-fast-pips", "the nearest is 'icam-fast-pipes'"),
        ("gone.onnx", "the model gone.onnx: expected a file or a run's folder that exists, got none there"),
        ("gone.safetensors", "the model gone.safetensors: expected a file or a run's folder that exists"),
        ("a/b/gone", "the model a/b/gone: expected a file or a run's folder that exists"),
        ("model.pt", "the model model.pt: expected a file or a run's folder that exists"),
        ("", "expected a run's folder with a model.safetensors, got a folder without one"),  # this folder
        ("a" * 5000, "cannot read"),
        ("~nobody-of-this-name/run/x", "the model ~nobody-of-this-name/run/x: expected a file"),
    ],
)
def test_names_that_nobody_has(name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refusal(name)


def test_files_that_are_no_models(tmp_path):
    for name, content, message in (
        ("a.pt", b"PK", "expected a .safetensors or .onnx file, or a run's folder, got a model file of another kind"),
        ("a.safetensors", b"", "expected a .safetensors file, got something else"),
        ("a.onnx", b"", "expected an ONNX graph, got an empty file"),
        ("b.onnx", b"onnx?", "expected an exported model, got a file that onnxruntime cannot open"),
    ):
        (tmp_path / name).write_bytes(content)
        assert message in refusal(tmp_path / name)
    assert "expected a run's folder with a model.safetensors, got a folder without one" in refusal(tmp_path)


def test_a_task_that_is_not_installed(tmp_path):
    network = create("icam-31k", classes=2, image=28, patch=14)
    family, config = describe(network)
    save_model(network, tmp_path / "m.safetensors", classify_card("x", family, config, size=28, task="segmnt"))
    assert "expected the card of a model for a task that is installed, got no task is called 'segmnt'" in refusal(
        tmp_path / "m.safetensors"
    )


def test_what_does_not_go_together(run, exported):
    assert "expected a preset beside config, got a model that has a config of its own" in refusal(
        run, config={"classes": 2}
    )
    assert "--device: expected auto or cpu for an exported file, got cuda" in refusal(exported, device="cuda")
    assert "threads: expected at most 256, got 100000" in refusal(exported, threads=100_000)
    with pytest.raises(FovealError, match="an exported file holds no torch module; load the run's folder or its"):
        _ = load(exported).network
    with pytest.raises(FovealError, match=r"expected an exported \.onnx file, got a model of torch"):
        _ = load(run).exported
    with pytest.raises(FovealError, match="expected a model of torch, got a file that is exported already"):
        load(exported).export("again.onnx")
    with pytest.raises(FovealError, match="it classifies, and translates nothing; call predict"):
        load(run).translate("one")
    with pytest.raises(
        FovealError,
        match="no option of predict of a model that classifies is called 'treshold'; the nearest is 'threshold'",
    ):
        load(run).predict([], treshold=0.5)


# --- names ------------------------------------------------------------------------------------------------------------


def test_which_words_name_models(run, exported, tmp_path):
    assert all(is_model(str(word)) for word in (run, run / packaged.FILE, exported, "icam-pipes", "gone.onnx"))
    assert not any(is_model(str(word)) for word in (tmp_path, "photo.jpg", "icam-31k", "-"))
    assert find_model("icam-31k") is None
    assert find_model(run) == run


def test_a_list_of_models():
    assert list_models("icam*") == [
        "icam-30k",
        "icam-31k",
        "icam-lite",
        "icam-fast",
        "icam-seg",
        "icam-seg-small",
        "icam-fast-pipes",
        "icam-pipes",
        "icam-seg-pipes",
    ]
    assert "icam-seg-pipes" in list_models(task="segment")
    assert "icam-seg-pipes" not in list_models(task="classify")
    assert "transformer-base" in list_models(task="translate")
    assert not set(list_models(task="translate")) & set(list_models(task="classify"))
    with pytest.raises(FovealError, match="no task is called 'classfy'"):
        list_models(task="classfy")


def test_a_list_of_a_name_that_nothing_has_is_no_empty_list():
    with pytest.raises(FovealError) as caught:
        list_models("translate")
    assert str(caught.value) == (
        "list_models: expected a pattern of names, or task=, got the task 'translate'; list_models(task='translate')"
    )
    with pytest.raises(FovealError, match="no model is called 'icam-31'; the nearest is 'icam-31k'"):
        list_models("icam-31")
    with pytest.raises(FovealError, match=r'list_models: expected a pattern such as "icam\*", got None'):
        list_models(None)
    assert list_models("nothing-like-it*") == []


@pytest.mark.parametrize("name", [None, 3, ["icam-31k"], b"icam-31k"])
def test_what_is_no_name(name):
    assert refusal(name).startswith("the model: expected its name or its path, got ")


@pytest.mark.parametrize(
    ("inputs", "got"), [(None, "None"), (3, "3"), (b"photo.jpg", "bytes"), ({"photo.jpg": 1}, "dict")]
)
def test_what_is_no_input(inputs, got, run):
    with pytest.raises(FovealError) as caught:
        load(run, device="cpu").predict(inputs)
    wanted = "a path, folder or pattern, one image, or several of them"
    assert str(caught.value) == f"to predict: expected {wanted}, got {got}"


# --- there and back ---------------------------------------------------------------------------------------------------


def test_saved_by_the_hubs_conventions_and_loaded_again(run, tmp_path):
    model = load(run, device="cpu")
    folder = model.save_pretrained(tmp_path / "saved")
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    again = load(folder, device="cpu")
    assert again.card == model.card
    assert np.array_equal(answers(again), answers(model))
    config = json.loads((folder / "config.json").read_text())
    assert (config["library_name"], config["task"], config["model"], config["family"]) == (
        "foveal",
        "classify",
        "icam-31k",
        "icam",
    )
    assert config["config"] == model.card.config
    text = (folder / "README.md").read_text()
    assert text.startswith("---\nlibrary_name: foveal\ntags: [foveal, classify]\n---\n# icam-31k\n\nmine\n")


def test_a_translator_is_saved_and_loaded_again(translator, tmp_path):
    model = load(translator, device="cpu")
    again = load(model.save_pretrained(tmp_path), device="cpu")
    assert again.card == model.card
    assert again.translate(["one two three"]) == model.translate(["one two three"])


def test_how_a_model_shows_itself(run, exported):
    assert (
        repr(load("icam-30k", device="cpu")) == "Model('icam-30k', task='classify', model='icam-30k', random weights)"
    )
    assert repr(load(exported)) == f"Model('{exported}', task='classify', model='icam-31k', exported)"
