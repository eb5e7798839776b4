"""Whole runs, in this process: what they leave behind, and what they say to what cannot be."""

import errno
import logging
import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from data.bad import BAD, spoiled
from oracle import metric
from PIL import Image
from safetensors.torch import load_file as read_file
from torch.nn import functional as F
from training.little import FIELDS, a_set, figures, image, result, rows, same_run, trained

from foveal.data.name_sketch import count_known
from foveal.data.read import read
from foveal.errors import FovealError
from foveal.models.store import begin_with, load_model, read_tensors, read_text
from foveal.runtime.card import read_card
from foveal.tasks.classify import data as data_module
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.data import ClassifyData
from foveal.tasks.classify.module import ClassifyModule
from foveal.tasks.classify.predictions import read_predicted
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.classify.training import build
from foveal.training.harness import Machine

CPU = Machine("cpu", workers=0)
FILES = {
    "recipe.yaml",
    "data.json",
    "bad.csv",
    "log.csv",
    "last.ckpt",
    "weights.safetensors",
    "model.safetensors",
    "result.json",
    "tensorboard",
}
FILES |= {"predictions-val.csv", "predictions-test.csv"}


def recipe_for(data, /, **changes):
    return ClassifyRecipe(**(FIELDS | {"data": str(data)} | changes))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return a_set(tmp_path_factory.mktemp("set"))


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    return a_set(tmp_path_factory.mktemp("several"), multi_label=True)


@pytest.fixture(scope="module")
def a_run(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "deep" / "run"
    trained(
        recipe_for(data, label_smoothing=0.0, checkpoint="last", seed=3), folder, machine=CPU, origin={"commit": "abc"}
    )
    return folder


def test_what_a_run_leaves(a_run, data):
    assert {path.name for path in a_run.iterdir()} == FILES
    assert ClassifyRecipe(**yaml.safe_load((a_run / "recipe.yaml").read_text())) == recipe_for(
        data, label_smoothing=0.0, checkpoint="last", seed=3
    )
    assert result(a_run)["origin"] == {"commit": "abc"}
    assert result(a_run)["epoch"] == 2
    source = read(str(data))
    for split in ("val", "test"):
        listed = rows(a_run / f"predictions-{split}.csv")
        assert [row["file"] for row in listed] == [source.file(int(index)) for index in source.indices(split)]
        assert [row["truth"] for row in listed] == [
            source.classes[source.labels[index]] for index in source.indices(split)
        ]


def test_the_model_file_gives_the_predictions(a_run, data):
    model, card = load_model(a_run, ClassifyCard)
    assert card.classes == ("left", "right")
    assert card.recipe["seed"] == 3
    predicted = read_predicted(a_run / "predictions-test.csv", multi_label=False)
    source, mean, std = read(str(data)), torch.tensor(card.mean), torch.tensor(card.std)
    for file, logits in zip(predicted.files, predicted.logits, strict=True):
        index = next(index for index in range(len(source)) if source.file(index) == file)
        pixels = torch.from_numpy(source.image(index, card.size)).float() / 255
        with torch.no_grad():
            said = model(((pixels - mean) / std).permute(2, 0, 1)[None])[0]
        torch.testing.assert_close(said.double(), torch.tensor(logits), rtol=1e-4, atol=1e-5)


def test_the_log_describes_the_kept_weights(a_run):
    predicted = read_predicted(a_run / "predictions-val.csv", multi_label=False)
    loss = F.cross_entropy(torch.tensor(predicted.logits), torch.tensor(predicted.truth))
    assert float(figures(a_run)[-1]["val_loss"]) == pytest.approx(float(loss), abs=1e-5)
    right = predicted.logits.argmax(1) == predicted.truth
    recall = np.mean([right[predicted.truth == label].mean() for label in np.unique(predicted.truth)])
    assert result(a_run)["val_score"] == pytest.approx(recall, abs=1e-6)


def test_the_score_of_averaged_weights_is_their_own(tmp_path):
    """The mean of two epochs ranks images as neither of them does."""
    folder = tmp_path / "run"
    several = a_set(tmp_path / "set", count=43, multi_label=True, splits="train val val")
    trained(recipe_for(several, average=2, ema=0.0, seed=5), folder, machine=CPU)
    predicted = read_predicted(folder / "predictions-val.csv", multi_label=True)
    each = [
        metric.average_precision(truth, scores, [1] * len(truth))
        for truth, scores in zip(predicted.truth.T.tolist(), predicted.logits.T.tolist(), strict=True)
    ]
    kept = result(folder)
    assert kept["val_score"] == pytest.approx(metric.mean(each), abs=1e-6)
    assert all(abs(kept["val_score"] - float(row["val_score"])) > 1e-3 for row in figures(folder))
    assert kept["epoch"] == 2
    assert load_model(folder, ClassifyCard)[1].metrics == {"val_score": kept["val_score"]}


@pytest.mark.slow
def test_same_seed_same_result(a_run, data, tmp_path, monkeypatch):
    recipe = recipe_for(data, label_smoothing=0.0, checkpoint="last", seed=3)
    trained(recipe, tmp_path / "again", machine=CPU)
    same_run(tmp_path / "again", a_run)
    monkeypatch.setattr(data_module, "ROOM", 0)  # images are decoded as they are asked for
    trained(recipe, tmp_path / "streamed", machine=CPU)
    same_run(tmp_path / "streamed", a_run)
    trained(recipe, tmp_path / "workers", machine=Machine("cpu", workers=2))
    same_run(tmp_path / "workers", a_run)
    trained(recipe_for(data, label_smoothing=0.0, checkpoint="last", seed=4), tmp_path / "other", machine=CPU)
    assert figures(tmp_path / "other") != figures(a_run)


def test_a_run_leaves_warnings_and_logs_of_its_caller_as_they_were(data, tmp_path):
    names = ("pytorch_lightning", "lightning_fabric")
    before = list(warnings.filters), [logging.getLogger(name).level for name in names]
    trained(recipe_for(data, epochs=1), tmp_path / "run", machine=CPU)
    assert (list(warnings.filters), [logging.getLogger(name).level for name in names]) == before


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("csv", [False, True])
def test_bad_images_end_nothing_and_are_listed(tmp_path, monkeypatch, streamed, csv):
    if streamed:
        monkeypatch.setattr(data_module, "ROOM", 0)
    data = spoiled(tmp_path / "set", csv=csv)
    trained(recipe_for(data, epochs=2, batch=3), tmp_path / "run", machine=CPU)
    listed = {row["file"]: row["reason"] for row in rows(tmp_path / "run" / "bad.csv")}
    assert listed.keys() == BAD.keys()
    for file, words in BAD.items():
        assert words in listed[file]
    told = {row["file"] for split in ("val", "test") for row in rows(tmp_path / "run" / f"predictions-{split}.csv")}
    source = read(str(data))
    expected = {source.file(int(index)) for split in ("val", "test") for index in source.indices(split)}
    assert told == expected - BAD.keys()
    assert expected & BAD.keys(), "some of the bad ones must be in val or test"


def test_bad_images_survive_a_resume(tmp_path, monkeypatch):
    monkeypatch.setattr(data_module, "ROOM", 0)
    recipe = recipe_for(spoiled(tmp_path / "set"), epochs=2, batch=3)
    with monkeypatch.context() as patch:
        patch.setattr("foveal.tasks.classify.training.conclude", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            trained(recipe, tmp_path / "run", machine=CPU)
    trained(recipe, tmp_path / "run", resume=True, machine=CPU)
    assert {row["file"] for row in rows(tmp_path / "run" / "bad.csv")} == BAD.keys()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_split_that_cannot_be_read(tmp_path, monkeypatch, streamed):
    if streamed:
        monkeypatch.setattr(data_module, "ROOM", 0)
    data = a_set(tmp_path / "set")
    for row in rows(data / "labels.csv"):
        if row["split"] == "val":
            (data / row["file"]).write_bytes(b"")
    with pytest.raises(FovealError, match=r"split val: expected at least one image that can be read, got none"):
        trained(recipe_for(data), tmp_path / "run", machine=CPU)


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("balance", ["none", "weights", "sampling"])
def test_labels_and_balance(data, several, tmp_path, multi_label, balance):
    folder = tmp_path / "run"
    trained(recipe_for(several if multi_label else data, balance=balance, epochs=1), folder, machine=CPU)
    card = read_card(read_text(folder / "model.safetensors"), "", ClassifyCard)
    assert card.multi_label == multi_label
    assert (card.threshold is None) != multi_label
    predicted = read_predicted(folder / "predictions-val.csv", multi_label)
    assert predicted.truth.shape == ((len(predicted.files), 2) if multi_label else (len(predicted.files),))


@pytest.mark.slow
def test_it_learns(data, several, tmp_path):
    """Left and right differ by their light: a few epochs tell them apart, of one label and of several."""
    for name, source in (("one", data), ("several", several)):
        recipe = recipe_for(source, epochs=16, augment="none", ema=0.5, label_smoothing=0.02, lr=0.01)
        assert trained(recipe, tmp_path / name, machine=CPU)["val_score"] >= 0.75
        losses = [float(row["loss"]) for row in figures(tmp_path / name)]
        assert losses[-1] < losses[0] / 2


def test_half_precision_on_a_cpu(data, tmp_path):
    trained(recipe_for(data, precision="bf16", epochs=1), tmp_path / "run", machine=CPU)
    assert np.isfinite(read_predicted(tmp_path / "run" / "predictions-val.csv", multi_label=False).logits).all()
    assert all(
        tensor.dtype != torch.bfloat16 for tensor in read_tensors(tmp_path / "run" / "model.safetensors")[0].values()
    )
    with pytest.raises(FovealError, match="--precision: expected 32 or bf16 on a CPU, got 16"):
        trained(recipe_for(data, precision="16"), tmp_path / "other", machine=CPU)
    assert not list((tmp_path / "other").glob("*"))


def test_start_from_another_model(a_run, data, tmp_path, monkeypatch):
    third = tmp_path / "set"
    shutil.copytree(data, third)
    Image.fromarray(image(99, None)).save(third / "99.png")
    with (third / "labels.csv").open("a") as lines:
        lines.write("99.png,third,train,0\n")
    recipe = recipe_for(third, init_from=str(a_run), epochs=1)
    model, old = build(recipe, 3), read_tensors(a_run / "model.safetensors")[0]
    assert torch.equal(model.state_dict()["embed.weight"], old["embed.weight"])
    assert model.state_dict()["head.3.weight"].shape == (3, old["head.3.weight"].shape[1])
    assert begin_with(build(recipe_for(third), 3), str(a_run / "model.safetensors")) < len(old)
    assert trained(recipe, tmp_path / "run", machine=CPU)["data"]["classes"] == ["left", "right", "third"]
    with pytest.raises(FovealError, match=r"expected a .safetensors file"):
        trained(recipe_for(third, init_from=str(data / "0.png")), tmp_path / "other", machine=CPU)


REFUSED = [
    ({"size": 33}, "--size: expected images that icam-31k takes, got 33 × 33; choose a multiple of 8$"),
    ({"size": 36}, r"got 36 × 36; choose a multiple of 8, or --config '\{image: 36, patch: 9\}'$"),
    ({"size": 64, "config": {}}, r"choose a multiple of 56, or --config '\{image: 64, patch: 16\}'$"),
    (
        {"config": {"image": 32, "patch": 8, "pool": 3}},
        "--config, pool: expected at most 2 for patches of 8 pixels, the side of Φ's map, got 3; add pool: 2",
    ),
    ({"model": "icam-lite", "size": 96, "config": {}}, r"--config '\{image: 96, patch: 96, pool: 12\}'$"),
    ({"fold": 3}, "fold: expected 0 to 2, got 3"),
    ({"config": {"image": 32, "patch": 7}}, "patch"),
    (
        {"config": {"classes": 3}},
        "--config: expected fields of the model's config, and the data name the classes, got 'classes'",
    ),
    ({"config": {"patches": 8}}, "no field of icam-31k's config is called 'patches'; the nearest is 'patch'"),
    ({"config": {3: 8}}, "--config: expected fields of the model's config, and the data name the classes, got 3"),
    ({"model": "icam-32k"}, "no model is called 'icam-32k'"),
    ({"data": "/nowhere"}, "/nowhere: expected pipes, or a folder or a csv file that exists"),
    (
        {"init_from": "/nowhere"},
        "model.safetensors, icam-fast-pipes, icam-pipes, icam-seg-pipes or imagenet, got /nowhere",
    ),
    (
        {"fold_column": "split"},
        "--fold-column: expected --folds or --fold beside it, which say what to test on, got neither",
    ),
    ({"label": "kind"}, "no column of labels.csv is called 'kind'"),
]


@pytest.mark.parametrize(
    ("changes", "says"), REFUSED, ids=[next(iter(changes)) + str(number) for number, (changes, _) in enumerate(REFUSED)]
)
def test_refused_before_anything_is_written(data, tmp_path, monkeypatch, changes, says):
    monkeypatch.setattr(ClassifyData, "__init__", lambda *args: pytest.fail("images were decoded"))
    with pytest.raises(FovealError, match=says) as caught:
        trained(recipe_for(data, **changes), tmp_path / "run", machine=CPU)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "run").glob("*")), "nothing is written into the folder"


@pytest.mark.parametrize(
    ("machine", "says"),
    [
        (Machine("cuda"), "device: expected auto, or one that this machine has"),
        (Machine("cpu", strategy="dpd"), "cannot train on cpu × 1, strategy dpd"),
        (Machine("cpu", devices=2), "--batch: expected a multiple of the 2 devices, got 5"),
        (Machine("cpu", devices=17), "a multiple of the 17 devices"),
    ],
)
def test_a_machine_that_is_not_there(data, tmp_path, machine, says):
    if machine.device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(FovealError, match=says):
        trained(recipe_for(data), tmp_path / "run", machine=machine)
    assert not list((tmp_path / "run").glob("*")), "nothing is written into the folder"


def test_a_split_without_an_image_is_not_reported_as_one_that_cannot_be_read(tmp_path):
    """Two classes with an image each: divided, there is none to train with."""
    for label, name in enumerate(("left", "right")):
        (tmp_path / "set" / name).mkdir(parents=True)
        Image.fromarray(image(label, label)).save(tmp_path / "set" / name / "0.png")
    with pytest.raises(
        FovealError, match="set, split train: expected at least one image with a label, got none of its 2; add images"
    ):
        trained(recipe_for(tmp_path / "set"), tmp_path / "run", machine=CPU)


def test_few_images(tmp_path):
    """One image in a split, a class that is never trained on, a batch larger than the set."""
    data = a_set(tmp_path / "set", count=3, splits="train val test")
    lines = ["file,label,split", "0.png,left,train", "1.png,right,val", "2.png,left,test"]
    (data / "labels.csv").write_text("\n".join(lines) + "\n")
    for balance in ("weights", "sampling"):
        done = trained(recipe_for(data, batch=64, balance=balance), tmp_path / balance, machine=CPU)
        assert done["data"]["classes"] == ["left", "right"]
        assert [row["file"] for row in rows(tmp_path / balance / "predictions-test.csv")] == ["2.png"]


def test_no_test_split(tmp_path):
    data = a_set(tmp_path / "set", splits="train val")
    trained(recipe_for(data, epochs=1), tmp_path / "run", machine=CPU)
    assert not (tmp_path / "run" / "predictions-test.csv").exists()
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_a_test_split_without_labels(tmp_path, monkeypatch):
    """Labels that are not known are marked so, and taken for no class."""
    for multi_label in (False, True):
        data = a_set(tmp_path / f"set{multi_label}", multi_label=multi_label)
        source = read(str(data))
        source.labels[source.indices("test")] = 255 if multi_label else -1
        monkeypatch.setattr("foveal.tasks.classify.reading.read", lambda *args, **keywords: source)
        folder = tmp_path / f"run{multi_label}"
        trained(recipe_for(data, epochs=1), folder, machine=CPU)
        assert {row["truth"] for row in rows(folder / "predictions-test.csv")} == {"?"}
        assert read_predicted(folder / "predictions-test.csv", multi_label).files == ()


def test_diverging_is_one_line_and_leaves_what_was_there(data, tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(FovealError, match="training: expected finite numbers, got NaN or infinity"):
        trained(recipe_for(data, lr=1e9, clip=0.0, warmup=0.0, epochs=9), folder, machine=CPU)
    assert not (folder / "result.json").exists()
    if (folder / "last.ckpt").exists():
        torch.load(folder / "last.ckpt", weights_only=True)
    with pytest.raises(FovealError, match="one with a run in it"):
        trained(recipe_for(data), folder, machine=CPU)


def test_patience(data, tmp_path, monkeypatch):
    monkeypatch.setattr(ClassifyModule, "score", lambda self, logits, labels: 0.5)
    done = trained(recipe_for(data, epochs=9, patience=3), tmp_path / "run", machine=CPU)
    rows = figures(tmp_path / "run")
    assert len(rows) == 4
    # of equal scores, the lower loss
    assert done["epoch"] == 1 + min(range(4), key=lambda row: float(rows[row]["val_loss"]))


def test_blank(data, tmp_path, monkeypatch):
    seen = []
    real = ClassifyModule.images
    monkeypatch.setattr(ClassifyModule, "images", lambda self, batch: seen.append(real(self, batch)) or seen[-1])
    for room in (2**30, 0):
        monkeypatch.setattr(data_module, "ROOM", room)
        trained(recipe_for(data, epochs=1, blank=[[0, 0, 1, 0.25]]), tmp_path / str(room), machine=CPU)
    assert all((images[:, :, :8] == 128 / 255).all() and images[:, :, 8:].std() > 0.05 for images in seen)
    same_run(tmp_path / "0", tmp_path / str(2**30))


def test_a_full_disk(data, tmp_path, monkeypatch):
    real, folder, recipe = Path.write_bytes, tmp_path / "run", recipe_for(data, epochs=3)
    for name in ("weights.safetensors", "last.ckpt", "model.safetensors"):
        with monkeypatch.context() as patch:

            def full(path, content):
                if name in path.name:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return real(path, content)

            patch.setattr(Path, "write_bytes", full)
            with pytest.raises(FovealError, match=f"cannot write .*{name}: .*No space left on device"):
                trained(recipe, folder, resume=folder.exists(), machine=CPU)
    trained(recipe, folder, resume=True, machine=CPU)
    trained(recipe, tmp_path / "whole", machine=CPU)
    same_run(folder, tmp_path / "whole")


def test_where_nothing_can_be_written(data, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FovealError, match=r"cannot write .*/file/run"):
        trained(recipe_for(data), tmp_path / "file" / "run", machine=CPU)
    with pytest.raises(FovealError, match="expected a new or empty one, got a file"):
        trained(recipe_for(data), tmp_path / "file", machine=CPU)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(FovealError, match="expected a new or empty one, or one with a run in it, got other files"):
        trained(recipe_for(data), tmp_path / "other", machine=CPU)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_in_which_another_process_trains_is_left_alone(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    data, folder = a_set(tmp_path / "set"), tmp_path / "run"
    folder.mkdir()
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    recipe = ClassifyRecipe(**(FIELDS | {"data": str(data), "epochs": 1}))
    with pytest.raises(FovealError, match="another process is training in this folder"):
        trained(recipe, folder, machine=Machine("cpu", workers=0))
    assert not list(folder.iterdir())
    os.close(handle)
    trained(recipe, folder, machine=Machine("cpu", workers=0))


def test_a_model_that_translates_is_not_trained_on_images():
    with pytest.raises(FovealError, match="the model rnn: expected one that classifies, got one of the family seq2seq"):
        build(ClassifyRecipe(model="rnn"), 2)


def test_a_margin_without_its_balance():
    with pytest.raises(FovealError, match="--margin: expected 1 beside --balance none, got 2"):
        ClassifyRecipe(margin=2.0)


def test_accumulated_gradients_make_fewer_steps(data, tmp_path):
    """17 training images in batches of 5 are 3 batches: 2 steps per epoch where two batches share one,
    and as many of the schedule.
    """
    trained(recipe_for(data, accumulate=2), tmp_path / "run", machine=CPU)
    kept = torch.load(tmp_path / "run" / "last.ckpt", weights_only=True)
    batches = -(-kept["loops"]["fit_loop"]["epoch_loop.batch_progress"]["total"]["ready"] // 2)
    assert kept["global_step"] == 2 * -(-batches // 2)
    assert kept["lr_schedulers"][0]["last_epoch"] == kept["global_step"]


def test_checkpointing_trains_the_same_model(data, a_run, tmp_path):
    """Gradient checkpointing costs time and changes no bit."""
    recipe = recipe_for(data, label_smoothing=0.0, checkpoint="last", seed=3, checkpointing=True)
    trained(recipe, tmp_path / "run", machine=CPU)
    same_run(tmp_path / "run", a_run)


def test_the_mean_of_the_last_epochs(data, tmp_path):
    recipe = recipe_for(data, epochs=3, average=2, ema=0.0, checkpoint="last")
    trained(recipe, tmp_path / "run", machine=CPU)
    last = [read_file(tmp_path / "run" / f"weights-{place}.safetensors") for place in range(2)]
    kept = read_file(tmp_path / "run" / "model.safetensors")
    for name, tensor in kept.items():
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor, (last[0][name] + last[1][name]) / 2)


def test_the_card_knows_the_training_images(a_run, data):
    card = read_card(read_text(a_run / "model.safetensors"), "", ClassifyCard)
    source = read(str(data))
    for split, share in (("train", 1), ("test", 0)):
        names = [source.file(int(index)).encode() for index in source.indices(split)]
        assert count_known(card.data["trained_on"], names) == (share * len(names), True)
