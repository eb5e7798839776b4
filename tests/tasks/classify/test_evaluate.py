"""`foveal evaluate`, as it is typed."""

import shutil

import numpy as np
import pytest
import torch
from data.bad import BAD, spoiled
from training.little import FIELDS, a_set, result, rows, trained

from foveal.app import cli
from foveal.report import progress as progress_module
from foveal.tasks.classify.evaluate import plain_thresholds
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.classify.summary import summarise
from foveal.tasks.load import load
from foveal.training.harness import Machine


def typed(capsys, *words):
    status = cli.main([str(word) for word in words])
    out, err = capsys.readouterr()
    return status, out, err


def a_run(folder, data, **changes):
    trained(
        ClassifyRecipe(**(FIELDS | {"data": str(data), "epochs": 1} | changes)),
        folder,
        machine=Machine("cpu", workers=0),
    )
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return a_set(tmp_path_factory.mktemp("set"))


@pytest.fixture(scope="module")
def one(data, tmp_path_factory):
    return a_run(tmp_path_factory.mktemp("runs") / "one", data)


def right(file):
    table = rows(file)
    return 100 * np.mean(
        [("left", "right")[float(row["logit right"]) > float(row["logit left"])] == row["truth"] for row in table]
    )


@pytest.mark.parametrize("split", ["test", "val"])
def test_figures_are_those_of_the_runs_predictions(one, capsys, tmp_path, split):
    status, out, err = typed(
        capsys, "evaluate", one, "--split", split, "--out", tmp_path / "report", "--resamples", "20", "--device", "cpu"
    )
    assert (status, err) == (0, "")
    line = next(line for line in out.splitlines() if line.startswith("| accuracy"))
    assert line.startswith(f"| accuracy | {right(one / f'predictions-{split}.csv'):.2f} (")
    assert (tmp_path / "report" / "report.html").exists()
    assert out.splitlines()[-1] == f"the report is {tmp_path}/report/report.html"


def test_a_fold_is_the_runs_own(data, tmp_path, capsys):
    run = a_run(tmp_path / "run", data, fold=1)
    status, out, _ = typed(capsys, "evaluate", run, "--resamples", "0", "--device", "cpu")
    assert status == 0
    assert f"| accuracy | {right(run / 'predictions-test.csv'):.2f} |" in out
    assert len(rows(run / "predictions-test.csv")) == sum(row["fold"] == "1" for row in rows(data / "labels.csv"))
    status, out, _ = typed(capsys, "evaluate", run, "--fold", "2", "--out", tmp_path / "other", "--resamples", "0")
    assert status == 0
    status, _, err = typed(capsys, "evaluate", run, "--fold", "3")
    assert (status, err) == (2, "foveal: error: fold: expected 0 to 2, got 3\n")


@pytest.mark.parametrize("csv", [False, True])
def test_bad_images_are_left_out(tmp_path, capsys, csv):
    source = spoiled(tmp_path / "set", csv=csv)
    run = a_run(tmp_path / "run", source)
    status, out, _ = typed(capsys, "evaluate", run, "--resamples", "0")
    assert status == 0
    left = [line for line in out.splitlines() if line.startswith("left out: ")]
    assert left
    assert all(line.split(": ")[1] in BAD for line in left)


def test_several_labels(tmp_path, capsys):
    run = a_run(tmp_path / "run", a_set(tmp_path / "set", multi_label=True))
    status, out, _ = typed(capsys, "evaluate", run, "--resamples", "10", "--threshold-metric", "F2")
    assert status == 0
    assert "exact match" in out


def test_images_of_the_training_are_counted(one, data, tmp_path, capsys):
    _, out, _ = typed(
        capsys, "evaluate", one, "--data", data, "--split", "train", "--resamples", "0", "--out", tmp_path / "a"
    )
    count = sum(row["split"] == "train" for row in rows(data / "labels.csv"))
    assert (
        f"{count} of {count} images were in the training split of this model, by their names: the figures flatter"
        in out
    )
    assert "in the training split" in (tmp_path / "a" / "report.html").read_text()
    _, out, _ = typed(
        capsys, "evaluate", one, "--data", data, "--split", "test", "--resamples", "0", "--out", tmp_path / "b"
    )
    assert "\n0 of " in out
    assert "in the training split" not in typed(capsys, "evaluate", one, "--resamples", "0", "--out", tmp_path / "c")[1]


def test_without_labelled_test_images_val_is_used_and_that_is_stated(one, tmp_path, capsys):
    other = a_set(tmp_path / "other", splits="train train val")
    status, out, _ = typed(capsys, "evaluate", one, "--data", other, "--resamples", "0")
    assert status == 0
    assert "no image of the split test has a label: evaluated on val" in out
    assert (one / "evaluation-val" / "report.html").exists()
    assert (
        "split test: expected labelled images" in typed(capsys, "evaluate", one, "--data", other, "--split", "test")[2]
    )


def test_an_exported_file_is_evaluated_as_its_model(one, data, tmp_path, capsys):
    assert typed(capsys, "export", one, "--out", tmp_path / "m.onnx")[0] == 0
    tables = []
    for model in (one, tmp_path / "m.onnx"):
        status, out, err = typed(
            capsys, "evaluate", model, "--data", data, "--resamples", "9", "--out", tmp_path / "report"
        )
        assert (status, err) == (0, "")
        tables.append([line for line in out.splitlines() if line.startswith("| ")])
    assert tables[0] == tables[1]
    status, _, err = typed(capsys, "evaluate", tmp_path / "m.onnx")
    assert (status, "name others with --data" in err) == (2, True), "its card keeps no path of the machine that trained"
    both = typed(
        capsys, "evaluate", one, "--beside", tmp_path / "m.onnx", "--resamples", "9", "--out", tmp_path / "report"
    )[1]
    assert "| figure, % | one | m.onnx |" in both
    assert "| balanced accuracy against one | – | 0.00 (0.00 to 0.00) |" in both
    assert (tmp_path / "report" / "comparison.tex").exists()


def test_every_format_has_its_origin_seed_and_split(one, tmp_path, capsys):
    typed(capsys, "evaluate", one, "--resamples", "9", "--out", tmp_path)
    for name in ("report.md", "report.csv", "report.tex", "figures.md", "figures.csv", "figures.tex", "report.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        for word in ("numpy", "split", "seed", "commit"):
            assert word in text, (name, word)
    lines = [line for line in (tmp_path / "figures.csv").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "class,figure,value,low,high,images"
    assert not any("nan" in line or "–" in line for line in lines)


def test_the_origin_names_the_threads_that_computed(one):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert load(one, device="cpu").evaluate(resamples=0).facts["origin"]["threads"] == "3"
    finally:
        torch.set_num_threads(before)


def test_other_data(one, data, tmp_path, capsys):
    other = a_set(tmp_path / "other", count=17)
    assert typed(capsys, "evaluate", one, "--data", other, "--resamples", "0", "--out", tmp_path / "a")[0] == 0
    only = tmp_path / "only"
    shutil.copytree(data, only)
    text = (only / "labels.csv").read_text().replace(",train,", ",test,").replace(",val,", ",test,")
    (only / "labels.csv").write_text(text)
    status, out, err = typed(capsys, "evaluate", one, "--data", only, "--resamples", "0", "--out", tmp_path / "b")
    assert (status, err) == (0, ""), "nothing to choose on is nothing to stop at"
    assert "| accuracy |" in out
    several = a_set(tmp_path / "several", multi_label=True)
    assert "got several labels per image" in typed(capsys, "evaluate", one, "--data", several)[2]
    (other / "labels.csv").write_text((other / "labels.csv").read_text().replace("left", "up"))
    assert "left, right, got right, up" in typed(capsys, "evaluate", one, "--data", other)[2]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--split", "tset"], "--split: expected one of train, val, test, got 'tset'"),
        (["--batch", "0"], "--batch: expected an integer, at least 1, got 0"),
        (["--resamples", "-1"], "--resamples: expected an integer, at least 0, got -1"),
        (["--threshold-metric", "F"], "the metric of a threshold"),
        (["--data", "nowhere"], "nowhere: expected pipes"),
    ],
)
def test_one_line_for_what_does_not_fit(one, capsys, words, says):
    status, _, err = typed(capsys, "evaluate", one, *words)
    assert status == 2
    assert err.count("\n") == 1
    assert says in err


def test_no_model(tmp_path, capsys):
    status, _, err = typed(capsys, "evaluate", tmp_path)
    assert status == 2
    assert "expected a run's folder with a model.safetensors" in err


def test_data_that_changed_since_the_training_is_refused_and_evaluated_only_when_asked_for(tmp_path, capsys):
    changed = a_set(tmp_path / "set")
    run = a_run(tmp_path / "run", changed)
    table = changed / "labels.csv"
    table.write_text(table.read_text(encoding="utf-8").replace(",val,", ",test,", 1), encoding="utf-8")
    status, _, err = typed(capsys, "evaluate", run)
    assert status == 2
    assert "the images, labels and splits of the training" in err
    assert typed(capsys, "evaluate", run, "--data", changed, "--resamples", 0)[0] == 0


def test_a_set_that_moved_is_evaluated_on_the_run_s_own_fold(tmp_path, capsys):
    data = a_set(tmp_path / "set")
    run = a_run(tmp_path / "run", data, fold=2)
    shutil.move(data, tmp_path / "moved")
    assert typed(capsys, "evaluate", run, "--data", tmp_path / "moved", "--resamples", 0)[0] == 0
    evaluated = (run / "evaluation-test" / "report.md").read_text(encoding="utf-8")
    assert "| fold | 2 |" in evaluated or "fold 2" in evaluated, evaluated


CAMPAIGNS = ("2019", "2021", "2022", "2025")


def of_campaigns(folder):
    """A set of four campaigns, of which the second has images of one class only."""
    table = a_set(folder, count=37) / "labels.csv"
    head, *lines = table.read_text().splitlines()
    years = [CAMPAIGNS[place % 4] for place in range(37)]
    years = ["2019" if year == "2021" and ",left," in line else year for year, line in zip(years, lines, strict=True)]
    table.write_text(
        "\n".join([f"{head},campaign", *(f"{line},{year}" for line, year in zip(lines, years, strict=True))]) + "\n"
    )
    return folder


def test_leave_one_campaign_out(tmp_path, capsys):
    """A campaign of one class selects in one run and tests in another.

    Both give a result, and evaluate takes the run's own folds.
    """
    data = of_campaigns(tmp_path / "set")
    runs = [a_run(tmp_path / f"fold{fold}-seed0", data, fold_column="campaign", fold=fold) for fold in range(4)]
    campaign = {row["file"]: row["campaign"] for row in rows(data / "labels.csv")}
    for fold, run in enumerate(runs):
        tested, chose = (
            {campaign[row["file"]] for row in rows(run / f"predictions-{split}.csv")} for split in ("test", "val")
        )
        assert (tested, chose) == ({CAMPAIGNS[fold]}, {CAMPAIGNS[(fold + 1) % 4]})
    assert {row["truth"] for row in rows(runs[1] / "predictions-test.csv")} == {"right"}
    predicted = rows(runs[0] / "predictions-val.csv")
    right_ = np.mean([float(row["logit right"]) > float(row["logit left"]) for row in predicted])
    assert result(runs[0])["val_score"] == pytest.approx(right_), "balanced accuracy over the classes that are there"
    status, out, _ = typed(capsys, "evaluate", runs[1], "--resamples", "20")
    assert status == 0
    assert "folds by campaign: 2019, 2021, 2022, 2025" in out
    assert "| ROC AUC | – |" in out
    assert f"| accuracy | {right(runs[1] / 'predictions-test.csv'):.2f} " in out
    assert "| fold | 1, 2021 |" in (runs[1] / "evaluation-test" / "report.md").read_text(encoding="utf-8")
    text = summarise(runs, tmp_path)
    pooled = 100 * np.mean(
        [
            row["truth"] == ("left", "right")[float(row["logit right"]) > float(row["logit left"])]
            for run in runs
            for row in rows(run / "predictions-test.csv")
        ]
    )
    assert (
        f"| accuracy | {pooled / 100:.4f} |" in text.split("All 37 test images of 4 folds taken together, one seed;")[1]
    )
    shutil.move(data, tmp_path / "moved")
    status, out, _ = typed(capsys, "evaluate", runs[1], "--data", tmp_path / "moved", "--resamples", "0")
    assert f"| accuracy | {right(runs[1] / 'predictions-test.csv'):.2f} |" in out, (
        "its own fold, not the one of the column fold"
    )
    status, out, _ = typed(capsys, "evaluate", runs[1], "--data", a_set(tmp_path / "other"), "--resamples", "0")
    assert status == 0, "other data may have no such column"
    assert "| fold | None |" in (runs[1] / "evaluation-test" / "report.md").read_text(encoding="utf-8")
    status, _, err = typed(capsys, "evaluate", runs[1], "--data", tmp_path / "moved", "--fold-column", "split")
    assert (status, "--fold-column: expected --fold beside it" in err) == (2, True)
    assert (
        typed(
            capsys,
            "evaluate",
            runs[1],
            "--data",
            tmp_path / "moved",
            "--fold-column",
            "split",
            "--fold",
            "0",
            "--resamples",
            "0",
        )[0]
        == 0
    )


def test_progress_is_shown(one, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress_module, "FIRST", 0.0)
    _, _, err = typed(capsys, "evaluate", one, "--resamples", "0", "--batch", "1", "--out", tmp_path)
    assert err.startswith("evaluating: 1 of ")


def test_what_is_evaluated_is_what_predict_finds(tmp_path, capsys):
    """The same thresholds, though predict's probabilities have a temperature and the report's have none."""
    data = a_set(tmp_path / "set", multi_label=True, count=41)
    run = a_run(tmp_path / "run", data, epochs=3)
    status, out, _ = typed(capsys, "evaluate", run, "--resamples", 0)
    assert status == 0
    assert "own thresholds" in (run / "evaluation-test" / "report.md").read_text(encoding="utf-8")
    told = {row["file"]: row["truth"] for row in rows(run / "predictions-test.csv")}
    typed(capsys, "predict", run, *(data / file for file in told), "--format", "csv", "--out", tmp_path / "found.csv")
    found = {row["file"].rpartition("/")[2]: row["found"] for row in rows(tmp_path / "found.csv")}
    right_ = np.mean([set(found[file].split(";")) == set(truth.split(";")) for file, truth in told.items()])
    assert f"| exact match | {100 * right_:.2f} |" in out


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_thresholds_without_temperature(temperature):
    logits = np.array([-3.0, -0.2, 0.4, 2.0])
    at_temperature = 1 / (1 + np.exp(-logits / temperature))
    assert plain_thresholds(tuple(at_temperature), temperature) == pytest.approx(1 / (1 + np.exp(-logits)))
    assert plain_thresholds((0.0, 1.0), temperature) == (0.0, 1.0)
