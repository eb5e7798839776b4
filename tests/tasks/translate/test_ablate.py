"""`foveal ablate transformer`: every variant is a model of its own, and the table has a row for each."""

import json

import pytest
from training.little import typed
from training.sentences import FLAGS, sentences

from foveal.app.cli import main
from foveal.errors import FovealError
from foveal.models.zoo import create
from foveal.tasks.ablation import same_training
from foveal.tasks.translate.ablate import AS_IT_IS, BASE, TABLES, TransformerAblation, table_of, varied
from foveal.tasks.translate.recipe import TranslateRecipe
from foveal.training import sweep


@pytest.mark.parametrize(("table", "name"), [(table, name) for table, rows in TABLES.items() for name in rows])
def test_every_variant_can_be_built(table, name):
    base = TranslateRecipe(model="transformer-tiny")
    recipe = varied(base, TABLES[table][name])
    own = {
        "heads": "4",
        "feed-forward": "× 2",
        "positions": "sinusoidal",
        "dropout": "0.3",
        "norm": "post",
        "label smoothing": "0.1",
    }
    assert same_training(recipe, base) == (own.get(table) == name)  # what the base is already has no row
    assert not same_training(recipe, base.changed(config={"norm": "pre"})) or name == "pre"
    built = create(recipe.model, source_vocab=300, target_vocab=300, **recipe.config)
    plain = create(base.model, source_vocab=300, target_vocab=300)
    assert repr(built) != repr(plain) or table in ("label smoothing", "positions") or own[table] == name
    if table == "heads":
        assert sum(weight.numel() for weight in built.parameters()) == sum(
            weight.numel() for weight in plain.parameters()
        )


@pytest.mark.slow
def test_a_table(tmp_path, capsys):
    data = sentences(tmp_path / "set")
    words = ["--data", data, *FLAGS, "--epochs", "1", "--only", "label smoothing", "--out", tmp_path / "out"]
    done = typed("ablate", "transformer", *words, timeout=600)
    assert done.returncode == 0, done.stderr
    rows = [
        line
        for line in (tmp_path / "out" / "ablation.md")
        .read_text(encoding="utf-8")
        .partition("## Origin")[0]
        .splitlines()
        if line.startswith("|")
    ]
    assert len(rows) == 2 + 1 + 2
    assert "25.3" in rows[3]
    again = main(["ablate", "transformer", *map(str, words), "--resume"])
    assert again == 0, capsys.readouterr().err
    for wrong, told in (
        (["--only", "hats"], "no table of transformer is called 'hats'"),
        (
            ["--config", "{normm: pre}", "--only", "norm"],
            "no field of transformer-tiny's config is called 'normm'; the nearest is 'norm'",
        ),
    ):
        assert main(["ablate", "transformer", "--data", str(data), *wrong]) == 2
        assert told in capsys.readouterr().err


def test_a_set_without_test_has_a_table_of_validation(tmp_path, monkeypatch):
    """What is trained is not the point here: every run says the same."""
    rows = sentences(tmp_path / "set").read_text(encoding="utf-8").splitlines()[1:]
    for split in ("train", "val"):
        some = [row.split("\t")[:2] for row in rows if row.endswith(split)]
        for place, language in enumerate(("en", "de")):
            (tmp_path / "set" / f"{split}.{language}").write_text(
                "".join(f"{row[place]}\n" for row in some), encoding="utf-8"
            )
    (tmp_path / "set" / "numbers.tsv").unlink()
    result = {
        "model": "transformer-tiny",
        "epoch": 1,
        "val_score": 40.0,
        "seconds": 1.0,
        "parameters": 1000,
        "val_loss": 2.0,
        "val": {"bleu": {"value": 40.0}, "lowercased": {"value": 41.0}},
    }

    def run_all(runs, flags, jobs, diverging):
        for run in runs:
            run.folder.mkdir(parents=True)
            (run.folder / "result.json").write_text(json.dumps(result))

    monkeypatch.setattr(sweep, "run_all", run_all)
    words = [
        "--data",
        tmp_path / "set",
        *FLAGS,
        "--epochs",
        "1",
        "--only",
        "label smoothing",
        "--out",
        tmp_path / "out",
    ]
    assert main(["ablate", "transformer", *map(str, words)]) == 0
    text = (tmp_path / "out" / "ablation.md").read_text(encoding="utf-8")
    assert "split val, 1 seeds, 1 epochs" in text
    assert text.count("| 40.0 | 41.0 |") == 3


@pytest.mark.slow
def test_a_training_that_really_diverges(tmp_path):
    data = sentences(tmp_path / "set")
    words = [
        "--data",
        data,
        *FLAGS,
        "--epochs",
        "2",
        "--lr",
        "9e14",
        "--warmup",
        "1",
        "--only",
        "residual",
        "--out",
        tmp_path / "out",
    ]
    done = typed("ablate", "transformer", *words, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "| as it is (1 of 1 diverged) | – |" in done.stdout


def test_what_diverged_is_named_and_not_averaged():
    def result(bleu):
        return {
            "parameters": 1000,
            "val_loss": 2.0,
            "test": {"bleu": {"value": bleu}, "lowercased": {"value": bleu + 1}},
        }

    results = {
        (BASE, AS_IT_IS): [result(40.0), result(42.0)],
        ("norm", "none"): [None, result(30.0)],
        ("norm", "post"): [None, None],
    }
    rows = table_of(results, [BASE, "norm"], "test").markdown().splitlines()[2:]
    assert "41.0 ± 1.4 | 42.0 ± 1.4" in rows[0]
    assert rows[1].startswith("| norm | post (2 of 2 diverged) | – | – |")
    assert "| none (1 of 2 diverged) | 1,000 | 30.0 | 31.0 | 2.000 |" in rows[2]


def test_the_base_comes_first_and_is_trained_once():
    recipe = TranslateRecipe(model="transformer-tiny")
    variants = TransformerAblation().variants(recipe, ["norm", "heads"])
    assert list(variants) == [BASE, "norm", "heads"]
    assert variants[BASE] == {AS_IT_IS: recipe}
    assert set(variants["norm"]) == {"pre", "none"}
    with pytest.raises(FovealError, match="--model: expected a preset of the Transformer, got rnn"):
        TransformerAblation().variants(recipe.changed(model="rnn"), None)
