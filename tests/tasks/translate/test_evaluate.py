"""Evaluating translators: what a report holds, and what a reader must know of the data."""

import json

import pytest
from training.killed import train_translate
from training.sentences import FIELDS, sentences

from foveal.errors import FovealError
from foveal.tasks.load import load
from foveal.tasks.translate.recipe import TranslateRecipe
from foveal.training.harness import Machine


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluated")
    recipe = TranslateRecipe(data=str(sentences(folder)), **FIELDS | {"epochs": 2})
    train_translate(recipe, folder / "run", machine=Machine(device="cpu"), origin={"machine": "this one"})
    return load(folder / "run", device="cpu")


def test_a_report(model, tmp_path):
    evaluation = model.evaluate(split="val", resamples=20)
    assert set(evaluation.figures) == {"bleu", "lowercased", "chrf"}
    files = evaluation.write(tmp_path)
    assert files[0] == tmp_path / "evaluation.md"
    for ending in ("md", "csv", "tex", "json"):
        text = (tmp_path / f"evaluation.{ending}").read_text(encoding="utf-8")
        assert "numbers" in text
        assert "split val" in text or '"split": "val"' in text
        assert "machine" in text
        assert "tok:13a" in text.replace("\\", "")
    facts = json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8"))
    assert facts["models"]["transformer-tiny"]["scores"]["bleu"]["value"] == pytest.approx(
        evaluation.figures["bleu"], abs=1e-3
    )
    assert "figure" in evaluation.summary()


def test_sentences_that_were_trained_on_are_counted(model, tmp_path):
    file = tmp_path / "other.tsv"
    rows = [
        "one one\teins eins\ttest",
        "one one one\teins eins eins\ttest",
        "five four six\tsechs vier fünf\ttest",
        "six\tsechs\ttrain",
    ]
    file.write_text("en\tde\tsplit\n" + "\n".join([*rows, "seven\tsieben\tval"]) + "\n", encoding="utf-8")
    found = model.evaluate(data=str(file), resamples=0)
    assert "2 source sentences of test are in the training split of numbers, too" in found.summary()
    assert found.facts()["notes"] == found.notes


def test_a_split_that_is_not_there(model):
    with pytest.raises(FovealError, match="--split: expected one of train, val, test, got nowhere"):
        model.evaluate(split="nowhere")
    with pytest.raises(FovealError, match="--beside: expected other models, got one of them twice"):
        model.evaluate(beside=[model])


def test_which_heads_matter_is_measured_on_validation_pairs(model):
    from foveal.explain.heads import importance_by_gradient
    from foveal.tasks.task import find_task

    samples = find_task("translate").labelled_batches(model, 3)
    assert samples.words == "3 pairs of the validation split of numbers"
    importance = importance_by_gradient(model.network, samples.batches, samples.loss)
    assert [len(one) for one in importance] == [2, 2, 2]
    assert all((one > 0).all() for one in importance)
