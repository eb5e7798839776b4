"""Several runs as one table, against what each run's own evaluation says."""

import json

import numpy as np
import pytest
from tasks.segment.painted import a_model, a_set, maps
from torch import nn

from foveal.progress import silent
from foveal.tasks.segment.scores import DECIDES
from foveal.tasks.segment.summary import CHOSEN, summarise

A = maps("1100", "0002", "0002"), maps("1000", "0002", "0102")
B = maps("0000", "0000", "0000"), maps("0000", "0000", "0000")
C = maps("0000", "0110", "0110"), maps("0000", "0000", "0000")
IMAGES = [A, B, C, A, B, C]


class Dull(nn.Module):
    """Another model, of which nothing is right that is no hole."""

    stride = multiple = 1

    def forward(self, images):
        red = 255 * images[:, :1] / 50
        return nn.functional.pad((red - 1.5).sign() * 9, (0, 0, 0, 0, 2, 0))


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """a_run(name, model, fold, seed): its folder; summarise opens the model."""
    models = {}
    monkeypatch.setattr("foveal.tasks.load.load", lambda folder: models[folder])

    def a_run(name, model, fold=None, seed=0):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        models[folder] = model
        facts = {"model": "reads", "parameters": 31371, "data": dict(model.card.data), "fold": fold, "seed": seed}
        facts |= {"epoch": 1, "val_score": 0.5, "seconds": 1.0, "origin": {"machine": "here"}}
        (folder / "result.json").write_text(json.dumps(facts))
        return folder

    return a_run


def cells(text, name):
    line = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_mean_and_spread_over_seeds(tmp_path, runs):
    data = a_set(tmp_path / "set", IMAGES, split=["test"] * 3 + ["train", "val", "train"])
    models = [a_model(data, seed=0), a_model(data, seed=1, network=Dull())]
    folders = [runs(f"seed{seed}", model, seed=seed) for seed, model in enumerate(models)]
    text = summarise(folders, tmp_path / "runs", silent)
    one, other = (100 * model.evaluate(resamples=0).figures[DECIDES] for model in models)
    assert one == pytest.approx(100 * 4 / 7)
    assert other == pytest.approx(100 * (0 + 1) / 2)
    spread = abs(one - other) / 2**0.5
    written = [f"{value:.2f}" for value in ((one + other) / 2, spread, other, one)]
    assert cells(text, "mIoU of findings, %") == written
    assert cells(text, "IoU crack, %")[2:] == ["0.00", "14.29"]
    assert cells(text, "side from which on most findings are found, pixels")[0] == "1.4"
    assert CHOSEN not in text
    content = json.loads((tmp_path / "runs/summary.json").read_text())
    assert (content["split"], content["runs"], "pooled" in content) == ("test", ["seed0", "seed1"], False)
    place = content["figures"].index("mIoU of findings, %")
    assert [row[place] for row in content["values"]] == pytest.approx([one / 100, other / 100])
    page = (tmp_path / "runs/summary.md").read_text()
    assert "reads (31,371 parameters) on set, 2 runs" in page
    assert "Split test, seeds 0, 1. Mean over runs" in page
    assert f"| seed0 | {one:.2f} |" in page
    assert (tmp_path / "runs/summary.tex").exists()


def test_folds_of_a_seed_are_one_test_of_all_images(tmp_path, runs):
    """By campaign: no campaign shows both classes and a pixel that is wrong, all together do."""
    images = [A, A, B, B, C, C]
    data = a_set(tmp_path / "set", images, campaign=["a", "a", "b", "b", "c", "c"])
    models = [a_model(data, fold=fold, fold_column="campaign") for fold in range(3)]
    folders = [runs(f"fold{fold}-seed0", model, fold=fold) for fold, model in enumerate(models)]
    text = summarise(folders, tmp_path / "runs", silent)
    each, together = text.split("All 6 test images of 3 folds taken together, one seed")
    # the campaign b shows nothing, and nothing is found there
    assert cells(each, "mIoU of findings, %") == ["33.33", "47.14", "0.00", "66.67"]
    assert cells(together, "mIoU of findings, %")[0] == f"{100 * 4 / 7:.2f}"
    assert cells(together, "pixel accuracy, %")[0] == f"{100 * 30 / 36:.2f}"
    assert "AUROC of any finding" in each
    assert "| AUROC" not in together
    page = (tmp_path / "runs/summary.md").read_text()
    assert "| fold1-seed0 (b) | – |" in page
    content = json.loads((tmp_path / "runs/summary.json").read_text())
    assert content["values"][1][0] is None
    assert np.shape(content["pooled"]["values"]) == (1, len(content["pooled"]["figures"]))


def test_without_test_images_the_validation_split_is_summed_up_and_that_is_stated(tmp_path, runs):
    data = a_set(tmp_path / "set", IMAGES, split=["train", "train", "val", "train", "val", "val"])
    text = summarise([runs("seed0", a_model(data))], tmp_path / "runs", silent)
    assert CHOSEN in text
    assert "Split val" in (tmp_path / "runs/summary.md").read_text()
    assert cells(text, "mIoU of findings, %")[1] == "–"


def test_data_are_read_once(tmp_path, runs, monkeypatch):
    from foveal.tasks.segment import evaluate

    data = a_set(tmp_path / "set", IMAGES, split=["test"] * 3 + ["train", "val", "train"])
    folders = [runs(f"seed{seed}", a_model(data), seed=seed) for seed in range(3)]
    real, times = evaluate.read_segments, []
    monkeypatch.setattr(evaluate, "read_segments", lambda *some, **more: times.append(1) or real(*some, **more))
    summarise(folders, tmp_path / "runs", silent)
    assert len(times) == 1
