"""`foveal prune`, as it is typed.

Then training, evaluating, exporting and explaining what it wrote, by the commands that all models have.
"""

import json

import numpy as np
import pytest
import torch
from cards import classify_card
from training.little import a_set, trained

import foveal.tasks.classify.ablate as ablate
import foveal.tasks.classify.ablate_pruned as ablate_pruned
import foveal.training.sweep as sweep
from foveal.app.cli import main
from foveal.app.command.prune import number
from foveal.deploy.measure.cost import parameters
from foveal.models.heads import head_layers
from foveal.models.store import describe, save_model
from foveal.models.zoo import create
from foveal.tasks.load import load
from foveal.training.harness import Machine

pytest.importorskip("torch_pruning")
LITTLE = ["--size", "32", "--batch", "5", "--epochs", "1", "--device", "cpu"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return a_set(tmp_path_factory.mktemp("set"))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """An icam on images of 32 × 32, as a file."""
    torch.manual_seed(0)
    model = create("icam-31k", classes=3, image=32, patch=8)
    family, config = describe(model)
    file = tmp_path_factory.mktemp("small") / "small.safetensors"
    save_model(
        model, file, classify_card("icam-31k", family, config, ("a", "b", "c"), size=32, metrics={"val_score": 1.0})
    )
    return file


def opened(path):
    """(network, card) of a file or a run."""
    model = load(path, device="cpu")
    return model.network, model.card


def run_cli(capsys, *words):
    status = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("31371", 31_371),
        ("31,371", 31_371),
        ("180M", 180_000_000),
        ("1.5k", 1500),
        ("2G", 2 * 10**9),
        ("1e3", 1000),
        ("icam-31k", None),
        ("M", None),
    ],
)
def test_numbers_as_people_type_them(text, value):
    assert number(text, "--parameters") == value


@pytest.mark.slow
def test_pruned_trained_evaluated_exported_and_explained(small, data, tmp_path, capsys):
    pruned, run = tmp_path / "pruned.safetensors", tmp_path / "run"
    status, out, err = run_cli(capsys, "prune", small, "--parameters", "20k", "--out", pruned)
    assert (status, err) == (0, "")
    (line,) = out.splitlines()
    model, card = opened(pruned)
    assert 19_000 <= parameters(model) <= 20_000
    assert line.startswith(
        f"wrote {pruned}, by l1 to at most 20,000 parameters: {parameters(model):,} of 31,385 parameters (6"
    )
    assert (card.model, card.metrics) == ("icam-31k-pruned", {})
    assert "pruned by l1 to at most 20,000 parameters, and not trained since" in card.note

    status, out, _ = run_cli(capsys, "train", "classify", "--data", data, "--model", pruned, *LITTLE, "--out", run)
    assert status == 0
    trained, after = opened(run)
    assert after.classes == ("left", "right")
    assert {name: shape for name, shape in after.shapes.items() if "head.3" not in name} == {
        name: shape for name, shape in card.shapes.items() if "head.3" not in name
    }
    assert not torch.equal(trained.embed.weight, model.embed.weight)
    assert (after.model, after.recipe["model"]) == ("icam-31k-pruned", str(pruned.resolve()))
    assert json.loads((run / "result.json").read_text())["parameters"] == parameters(trained)
    assert (
        run_cli(capsys, "train", "classify", "--data", data, "--model", pruned, *LITTLE, "--out", run, "--resume")[0]
        == 0
    )

    assert run_cli(capsys, "evaluate", run, "--device", "cpu", "--resamples", "0")[0] == 0
    status, out, err = run_cli(capsys, "export", run, "--out", tmp_path / "m.onnx")
    assert status == 0, err
    assert "100.00% of the answers are the same" in out
    status, out, _ = run_cli(capsys, "predict", tmp_path / "m.onnx", data / "1.png")
    assert status == 0
    assert run_cli(capsys, "explain", run, data / "1.png", "--out", tmp_path / "looked.png")[0] == 0


def test_a_vision_transformer_is_pruned_saved_and_opened(tmp_path, capsys):
    """None of the models that pruning knows by name: what may go is found out, and heads go as a whole."""
    torch.manual_seed(0)
    model = create("vit-micro", classes=3, image=32, layers=2)
    family, config = describe(model)
    file, pruned = tmp_path / "vit.safetensors", tmp_path / "pruned.safetensors"
    save_model(model, file, classify_card("vit-micro", family, config, ("a", "b", "c"), size=32))
    target = parameters(model) * 6 // 10
    status, out, err = run_cli(capsys, "prune", file, "--parameters", target, "--out", pruned)
    assert (status, err) == (0, "")
    assert f"by l1 to at most {target:,} parameters" in out
    opened_model, card = opened(pruned)
    assert 0.95 * target <= parameters(opened_model) <= target
    assert [layer.heads for layer in head_layers(opened_model)] == [2, 2]
    assert card.model == "vit-micro-pruned"
    assert opened_model(torch.zeros(2, 3, 32, 32)).shape == (2, 3)


def test_training_begins_with_the_pruned_weights(small, data, tmp_path):
    """With a learning rate of 0 they come out as they went in."""
    pruned = tmp_path / "pruned.safetensors"
    assert main(["prune", str(small), "--parameters", "20k", "--out", str(pruned)]) == 0
    flags = [*LITTLE, "--lr", "0", "--ema", "0", "--out", str(tmp_path / "run")]
    assert main(["train", "classify", "--data", str(data), "--model", str(pruned), *flags]) == 0
    before, after = (opened(path)[0].state_dict() for path in (pruned, tmp_path / "run"))
    learned = [
        name for name in before if before[name].is_floating_point() and "running" not in name and "head.3" not in name
    ]
    assert learned
    assert all(torch.equal(before[name], after[name]) for name in learned)


@pytest.mark.slow
def test_heads_by_name_and_by_what_they_matter(small, tmp_path, capsys):
    status, out, _ = run_cli(capsys, "prune", small, "--heads", "0:1", "--out", tmp_path / "h.safetensors")
    assert status == 0
    assert "without the heads 0:1 (as asked)" in out
    assert [layer.heads for layer in head_layers(opened(tmp_path / "h.safetensors")[0])] == [1, 2]
    for by in ("gradient", "masking"):
        status, out, _ = run_cli(
            capsys, "prune", small, "--heads", "2", "--by", by, "--out", tmp_path / "two.safetensors"
        )
        assert status == 0
        assert f"which matter least by {by}, on 64 of 64 rendered frames" in out
        assert [layer.heads for layer in head_layers(opened(tmp_path / "two.safetensors")[0])] == [1, 1]
    status, out, err = run_cli(capsys, "export", tmp_path / "h.safetensors", "--out", tmp_path / "h.onnx")
    assert status == 0, err
    maps = load(tmp_path / "h.onnx").explain(np.zeros((32, 32, 3), np.uint8)).arrays
    assert {name: one.shape for name, one in maps.items() if name.startswith("attention")} == {
        "attention first query": (1, 1, 4, 4),
        "attention layer 1": (1, 1, 4, 4),
        "attention layer 2": (2, 1, 4, 4),
    }


@pytest.mark.slow
def test_a_peer_with_random_weights_as_light_as_another_model(tmp_path, capsys):
    pytest.importorskip("transformers")
    status, out, _ = run_cli(
        capsys, "prune", "vit-24", "--parameters", "icam-31k", "--by", "fpgm", "--out", tmp_path / "v.safetensors"
    )
    assert status == 0
    assert out.startswith("vit-24: no weights come with foveal, so they are random\nwrote ")
    model, _ = opened(tmp_path / "v.safetensors")
    assert 0.95 * 31_371 <= parameters(model) <= 31_371
    status, out, err = run_cli(capsys, "export", tmp_path / "v.safetensors", "--out", tmp_path / "v.onnx")
    assert status == 0, err
    assert "100.00% of the answers are the same" in out


WRONG = {
    "zero": (
        ["--parameters", "0"],
        "--parameters: expected a number above 0, such as 31371 or 180M, or a model, got 0",
    ),
    "negative": (["--flops=-5"], "--flops: expected a number above 0, such as 31371 or 180M, or a model, got -5"),
    "not a number": (["--parameters", "nan"], "got nan"),
    "endless": (["--parameters", "inf"], "got inf"),
    "nonsense": (
        ["--parameters", "banana"],
        "--parameters: expected a number above 0, such as 31371 or 180M, or a model, got 'banana'",
    ),
    "too many": (["--parameters", "40k"], "expected fewer parameters than the model's own 31,385, got 40,000"),
    "its own": (["--parameters", "31385"], "expected fewer parameters than the model's own 31,385, got 31,385"),
    "too few": (["--parameters", "10"], "with one channel in every layer, got 10"),
    "two targets": (
        ["--parameters", "10k", "--flops", "1M"],
        "expected one of --flops, --parameters and --heads, got --flops and --parameters",
    ),
    "none": ([], "expected one of --flops, --parameters and --heads, got none"),
    "another's method": (
        ["--parameters", "10k", "--by", "masking"],
        "--by: expected one of l1, fpgm beside --parameters, got masking",
    ),
    "a method of channels": (
        ["--heads", "1", "--by", "l1"],
        "--by: expected one of gradient, masking beside --heads, got l1",
    ),
    "all heads": (["--heads", "0:0,0:1"], "the heads of layer 0: expected at least one of 2 left"),
    "no such head": (["--heads", "0:2"], "a head of layer 0: expected 0 to 1, got 2"),
    "no heads": (["--heads", "first"], "--heads: expected LAYER:HEAD, such as 0:1,1:0, or how many, got first"),
    "too many heads": (["--heads", "3"], "how many heads to remove: expected 1 to 2"),
    "another kind of file": (
        ["--parameters", "10k", "--out", "m.onnx"],
        "--out: expected a name that ends in .safetensors, got m.onnx",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_one_line(case, small, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags, words = WRONG[case]
    status, _, err = run_cli(capsys, "prune", small, "--out", "x.safetensors", *flags)
    assert status == 2
    assert words in err
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.glob("x.*"))


def test_a_config_beside_a_model_file_is_refused(small, data, tmp_path, capsys):
    flags = [*LITTLE, "--config", "{layers: 1}", "--out", tmp_path / "run"]
    status, _, err = run_cli(capsys, "train", "classify", "--data", data, "--model", small, *flags)
    assert status == 2
    assert "--config: expected none beside a model file" in err


def test_a_table_of_peers_as_light_as_icam(data, tmp_path, capsys, monkeypatch):
    """Of the smallest peer there is, each run in this process.

    It has fewer flops than icam already, which is reported and left out.
    """
    pytest.importorskip("transformers")
    monkeypatch.setattr(ablate.PrunedPeers, "models", lambda self: ("icam-31k", "vit-24"))
    monkeypatch.setattr(ablate_pruned, "METHODS", ("l1",))
    done = []

    def run_all(runs, flags, jobs, diverging=False):
        for run in runs:
            done.append(run)
            trained(run.recipe, run.folder, resume=True, machine=Machine("cpu"))

    monkeypatch.setattr(sweep, "run_all", run_all)
    flags = ["--data", data, *LITTLE, "--config", "{image: 32, patch: 8}", "--folds", "0,1", "--out", tmp_path / "out"]
    status, out, err = run_cli(capsys, "ablate", "pruned", *flags)
    assert status == 0, err
    table = [line.split(" | ") for line in out.splitlines() if line.startswith("| ")]
    assert [row[0] for row in table] == [
        "| pruned",
        "| ---",
        "| icam-31k",
        "| vit-24",
        "| vit-24, parameters of icam-31k, l1",
    ]
    assert "vit-24, flops of icam-31k, l1 is left out: the target: expected fewer flops" in err
    counts = [int(row[1].replace(",", "")) for row in table[2:]]
    assert counts[0] == 31_371 < counts[1]
    assert 0.95 * counts[0] <= counts[2] <= counts[0]
    wholes, tuned = done[:4], done[4:]
    assert [run.recipe.fold for run in tuned] == [0, 1]
    for whole, run in zip(wholes[2:], tuned, strict=True):
        assert run.recipe == whole.recipe.changed(model=run.recipe.model, config={}), "the same recipe"
        assert f"fold{run.recipe.fold}" in run.recipe.model, "pruned from the run of the same fold"
    first = (
        (tmp_path / "out" / "pruned-vit-24-parameters-of-icam-31k-l1" / "fold0-seed0.safetensors").stat().st_mtime_ns
    )
    assert run_cli(capsys, "ablate", "pruned", *flags, "--resume")[0] == 0
    assert (
        tmp_path / "out" / "pruned-vit-24-parameters-of-icam-31k-l1" / "fold0-seed0.safetensors"
    ).stat().st_mtime_ns == first
