"""Several runs as one table, against numbers made by hand from the runs' predictions."""

import csv
import json

import numpy as np
import pytest
from cards import classify_card
from torch import nn

from foveal.metrics.threshold import thresholds
from foveal.models.store import save_model
from foveal.tasks.classify.summary import CHOSEN, summarise


def a_run(folder, seed, multi_label=False, splits=("val", "test"), unknown=False, fold=None, names=()):
    """What a run leaves, as far as it is summed up: random predictions. With a fold, it tests images of its own."""
    draw = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    save_model(
        nn.Linear(2, 2),
        folder / "model.safetensors",
        classify_card("icam-31k", "icam", {}, ("a", "b", "c"), multi_label),
    )
    for split, count in zip(("val", "test"), (29, 31), strict=True):
        if split not in splits:
            continue
        lines = ["file,truth,logit a,logit b,logit c"]
        for number in range(count):
            marks = draw.random(3) < 0.4 if multi_label else np.arange(3) == number % 3
            truth = "?" if unknown and split == "test" else ";".join(np.array(["a", "b", "c"])[marks])
            logits = draw.normal(size=3) + 2 * marks
            lines.append(
                f"{'' if fold is None else fold}{number}.png,{truth}," + ",".join(f"{value:.6g}" for value in logits)
            )
        (folder / f"predictions-{split}.csv").write_text("\n".join(lines) + "\n")
    facts = {
        "model": "icam-31k",
        "parameters": 31371,
        "data": {"name": "photos"},
        "origin": {"machine": "here", "commit": "abc"},
    }
    facts |= {"fold": fold, "seed": seed // 10, "epoch": 1, "val_score": 0.5, "seconds": 1.0}
    facts["data"]["fold_names"] = list(names)
    (folder / "result.json").write_text(json.dumps(facts))
    return folder


def read(folder, split="test"):
    with (folder / f"predictions-{split}.csv").open() as lines:
        rows = list(csv.reader(lines))[1:]
    return [row[1] for row in rows], np.array([[float(value) for value in row[2:]] for row in rows])


def cells(text):
    table = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    return {row[0]: row[1:] for row in table}


@pytest.fixture
def runs(tmp_path):
    return [a_run(tmp_path / f"fold{number}-seed0", number) for number in range(3)]


def test_mean_and_spread_by_hand(runs, tmp_path):
    text = summarise(runs, tmp_path)
    accuracy, recall = [], []
    for run in runs:
        truth, logits = read(run)
        answer = np.array(["a", "b", "c"])[logits.argmax(1)]
        accuracy.append(np.mean(answer == truth))
        recall.append(np.mean([np.mean(answer[np.array(truth) == name] == name) for name in "abc"]))
    for name, values in (("accuracy", accuracy), ("balanced accuracy", recall)):
        mean = sum(values) / 3
        spread = (sum((value - mean) ** 2 for value in values) / 2) ** 0.5
        assert cells(text)[name] == [f"{value:.4f}" for value in (mean, spread, min(values), max(values))]
    kept = json.loads((tmp_path / "summary.json").read_text())
    np.testing.assert_allclose([row[kept["figures"].index("accuracy")] for row in kept["values"]], accuracy)
    assert kept["split"] == "test"
    lines = [line for line in (tmp_path / "summary.csv").read_text().splitlines() if not line.startswith("#")]
    table = [row for row in csv.DictReader(lines) if row["table"] == "Runs"]
    assert [row["run"] for row in table] == ["fold0-seed0", "fold1-seed0", "fold2-seed0"]
    assert [row["accuracy"] for row in table] == [f"{value:.4f}" for value in accuracy]
    page = (tmp_path / "summary.md").read_text()
    assert page.startswith("# icam-31k (31,371 parameters) on photos, 3 runs\n\nSplit test, seeds 0.")
    assert "| machine | here |" in page
    assert text.split("\n\n", 1)[1] in page
    assert "accuracy" in (tmp_path / "summary.tex").read_text()


def test_thresholds_are_chosen_on_val(tmp_path):
    """Of several labels: F1 of each class at the threshold that is best on the validation images."""
    run = a_run(tmp_path / "seed0", 4, multi_label=True)
    text = summarise([run], tmp_path)
    val, test = (
        (np.array([[name in one.split(";") for name in "abc"] for one in truth]), logits)
        for truth, logits in (read(run, "val"), read(run))
    )
    for place, name in enumerate("abc"):
        truth, scores = val[0][:, place], val[1][:, place]
        ordered = np.sort(scores)
        cuts = np.concatenate([[-np.inf], (ordered[1:] + ordered[:-1]) / 2])
        best = max(f1(truth, scores >= cut) for cut in cuts)
        allowed = {
            f"{f1(test[0][:, place], test[1][:, place] >= cut):.4f}"
            for cut in cuts
            if f1(truth, scores >= cut) > best - 1e-9
        }
        near = {
            f"{f1(test[0][:, place], test[1][:, place] >= cut):.4f}"
            for cut in np.linspace(*_span(cuts, truth, scores, best), 50)
        }
        assert cells(text)[f"F1 {name}"][0] in allowed | near
        assert cells(text)[f"F1 {name}"][1] == "–", "one run has no spread"


def _span(cuts, truth, scores, best):
    """From just above the score below the best cut to just below the one above it:
    where between two scores it lies is taste.
    """
    good = [cut for cut in cuts if f1(truth, scores >= cut) > best - 1e-9 and np.isfinite(cut)]
    below, above = scores[scores < min(good)], scores[scores > max(good)]
    return (below.max() if len(below) else min(good) - 1) + 1e-9, above.min() if len(above) else max(good) + 1


def f1(truth, answer):
    hit = (truth & answer).sum()
    return 2 * hit / max(1, truth.sum() + answer.sum())


@pytest.mark.parametrize("unknown", [False, True])
def test_without_labelled_test_images(tmp_path, unknown):
    runs = [
        a_run(tmp_path / f"seed{seed}", seed, splits=("val", "test") if unknown else ("val",), unknown=unknown)
        for seed in range(2)
    ]
    text = summarise(runs, tmp_path)
    assert CHOSEN in text
    assert CHOSEN in (tmp_path / "summary.md").read_text()
    truth, logits = read(runs[0], "val")
    right = np.mean(np.array(["a", "b", "c"])[logits.argmax(1)] == truth)
    kept = json.loads((tmp_path / "summary.json").read_text())
    assert kept["split"] == "val"
    assert kept["values"][0][kept["figures"].index("accuracy")] == pytest.approx(right)


def test_what_is_undefined_is_no_number(tmp_path):
    run = a_run(tmp_path / "seed0", 1)
    lines = (run / "predictions-test.csv").read_text().splitlines()
    (run / "predictions-test.csv").write_text(
        "\n".join([lines[0], *(line for line in lines[1:] if ",c," not in line)]) + "\n"
    )
    text = summarise([run], tmp_path)
    assert cells(text)["AP c"] == ["–"] * 4
    assert None in json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail)["values"][0]


def only(run, label):
    """Leave the test images of one class."""
    lines = (run / "predictions-test.csv").read_text().splitlines()
    (run / "predictions-test.csv").write_text(
        "\n".join([lines[0], *(line for line in lines[1:] if f",{label}," in line)]) + "\n"
    )


def test_all_test_images_of_a_seed_together_by_hand(tmp_path):
    """A campaign may hold one class only: its own figures say little,
    all of them together say what the model is worth.
    """
    campaigns = ("2019", "2022", "2025")
    runs = [
        a_run(tmp_path / f"fold{fold}-seed{seed}", 10 * seed + fold, fold=fold, names=campaigns)
        for seed in range(2)
        for fold in range(3)
    ]
    only(runs[1], "a")
    only(runs[4], "a")
    text = summarise(runs, tmp_path)
    accuracy, recall, f1_of_c = [], [], []
    for seed in (0, 3):
        truth, logits = (
            sum(parts, start)
            for parts, start in zip(zip(*map(predicted, runs[seed : seed + 3]), strict=True), ([], []), strict=True)
        )
        answer, truth = np.array(["a", "b", "c"])[np.array(logits).argmax(1)], np.array(truth)
        accuracy.append(np.mean(answer == truth))
        recall.append(np.mean([np.mean(answer[truth == name] == name) for name in "abc"]))
        f1_of_c.append(f1(truth == "c", answer == "c"))
    alone, together = text.split("All 73 test images of 3 folds taken together, mean and spread over 2 seeds;")
    for name, values in (("accuracy", accuracy), ("balanced accuracy", recall), ("F1 c", f1_of_c)):
        spread = abs(values[0] - values[1]) / 2**0.5
        assert cells(together)[name] == [
            f"{value:.4f}" for value in (np.mean(values), spread, min(values), max(values))
        ]
    assert "AP c" in cells(alone)
    assert not {"AP c", "mAP", "ROC AUC"} & cells(together).keys(), (
        "scores of different models are not ranked against each other"
    )
    assert "| fold1-seed0 (2022) |" in (tmp_path / "summary.md").read_text()
    assert "taken together" in (tmp_path / "summary.tex").read_text()
    kept = json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail)
    assert kept["pooled"]["seeds"] == [0, 1]
    np.testing.assert_allclose(
        [row[kept["pooled"]["figures"].index("accuracy")] for row in kept["pooled"]["values"]], accuracy
    )


def predicted(run):
    truth, logits = read(run)
    return truth, logits.tolist()


def test_several_labels_are_decided_by_each_run_s_own_thresholds(tmp_path):
    runs = [a_run(tmp_path / f"fold{fold}-seed0", fold, multi_label=True, fold=fold) for fold in range(3)]
    together = cells(summarise(runs, tmp_path).split("taken together, one seed;")[1])
    right = []
    for run in runs:
        val, test = (
            (np.array([[name in one.split(";") for name in "abc"] for one in truth]), logits)
            for truth, logits in (read(run, "val"), read(run))
        )
        cuts = thresholds(val[0].astype(int), 1 / (1 + np.exp(-val[1])))
        right += (test[0] == (1 / (1 + np.exp(-test[1])) >= cuts)).all(1).tolist()
    assert together["exact match"] == [f"{np.mean(right):.4f}", "–", *2 * [f"{np.mean(right):.4f}"]]


def test_seeds_without_folds_are_not_put_together(tmp_path):
    text = summarise([a_run(tmp_path / f"seed{seed}", 10 * seed) for seed in range(2)], tmp_path)
    assert "taken together" not in text
    assert "pooled" not in json.loads((tmp_path / "summary.json").read_text())
