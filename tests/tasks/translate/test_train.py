"""A run of translation: it learns, it resumes to the same weights, and what it keeps is the mean of its last epochs."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F
from training.killed import killed_and_resumed, train_translate
from training.little import rows, typed
from training.sentences import FIELDS, sentences

from foveal.data.parallel import read_parallel
from foveal.data.token_batches import TokenPairs, collate
from foveal.errors import FovealError
from foveal.models.store import load_model
from foveal.models.zoo import create
from foveal.runtime.vocabulary import both_from
from foveal.tasks.load import load
from foveal.tasks.task import find_task
from foveal.tasks.translate.card import TranslateCard
from foveal.tasks.translate.module import TranslateModule
from foveal.tasks.translate.recipe import TranslateRecipe
from foveal.training.harness import Machine
from foveal.training.schedule import root

CPU = Machine(device="cpu")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(sentences(tmp_path_factory.mktemp("numbers")))


def test_the_schedule_is_the_papers():
    width, warmup = 512, 4000
    for step in (1, 10, 3999, 4000, 4001, 100_000):
        paper = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert (width * warmup) ** -0.5 * root(step - 1, warmup) == pytest.approx(paper)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_over_tokens_and_knows_no_padding(smoothing):
    torch.manual_seed(0)
    model = create("transformer-tiny", source_vocab=50, target_vocab=50, layers=1, decoder_layers=1, dropout=0.0)
    pairs = TokenPairs.of([[5, 6, 7], [8]], [[9, 10], [11, 12, 13, 14]])
    batch = collate(pairs)
    module = TranslateModule(model, TranslateRecipe(label_smoothing=smoothing))
    each = []
    for place in range(2):
        alone = collate(pairs[[place]])
        logits = model(alone.source, alone.target_in)[0].log_softmax(1)
        words = alone.target_out[0]
        each += [-((1 - smoothing) * logits[i, word] + smoothing * logits[i].mean()) for i, word in enumerate(words)]
    torch.testing.assert_close(module.loss(model, batch, smoothing), torch.stack(each).mean(), rtol=1e-5, atol=1e-6)
    assert module.amount(batch) == 3 + 5
    plain = F.cross_entropy(
        model(batch.source, batch.target_in).flatten(0, 1), batch.target_out.flatten(), ignore_index=0
    )
    torch.testing.assert_close(module.loss(model, batch, 0.0), plain)


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    result = train_translate(TranslateRecipe(data=data, **FIELDS | {"epochs": 60}), folder, machine=CPU)
    return folder, result


def test_it_learns(run):
    folder, result = run
    assert result["test"]["chrf"]["value"] > 80  # three words have no run of four, which BLEU counts
    assert "tok:13a" in result["test"]["bleu"]["signature"]
    lines = (folder / "translations-test.tsv").read_text(encoding="utf-8").splitlines()
    assert len(lines) - 1 == result["data"]["splits"]["test"]
    _, card = load_model(folder, TranslateCard)
    assert card.task == "translate" and card.vocabulary and card.metrics["test"] == result["test"]  # noqa: PT018
    assert json.loads((folder / "result.json").read_text())["val_score"] == result["val"]["bleu"]["value"]
    rows = (folder / "log.csv").read_text().splitlines()
    assert "tokens_per_second" in rows[0]
    assert len(rows) == 61


@pytest.mark.parametrize("config", [{}, {"position": "learned", "max_length": 17}])
def test_a_given_test_is_translated_whole(data, tmp_path, capsys, config):
    """Longer than what is learned from, than a batch, and than there are positions for:
    it is in the score all the same.
    """
    long = " ".join(["one"] * 23), " ".join(["eins"] * 23)
    file = tmp_path / "more.tsv"
    extra = [f"{long[0]}\t{long[1]}\t{split}\n" for split in ("train", "val", "test")] + [
        "two\t\ttest\n",
        "\tzwei\ttest\n",
    ]
    file.write_text(Path(data).read_text(encoding="utf-8") + "".join(extra), encoding="utf-8")
    fields = FIELDS | {"epochs": 1, "max_length": 7, "tokens": 16, "beam": 1, "config": FIELDS["config"] | config}
    result = train_translate(TranslateRecipe(data=str(file), **fields), tmp_path / "run", machine=CPU)
    before = read_parallel(data).facts()["splits"]
    assert result["data"]["splits"] == {"train": before["train"], "val": before["val"] + 1, "test": before["test"] + 2}
    assert result["data"]["dropped"] == {"too long": 1, "no reference": 1}
    error = capsys.readouterr().err
    assert "1 pairs of val have more than 15 tokens: the loss leaves them out, BLEU does not" in error
    assert ("1 sentences of" in error and "have more than 16 tokens, of which the first are read" in error) == bool(
        config
    )
    load(tmp_path / "run", device="cpu").evaluate(split="test", resamples=0).write(tmp_path / "e")
    for folder in ("run", "e"):
        lines = (tmp_path / folder / "translations-test.tsv").read_text(encoding="utf-8").splitlines()
        assert len(lines) == 1 + before["test"] + 2
        source, translation, reference = next(line for line in lines if line.startswith("one one one one")).split("\t")
        assert (source, reference) == long
        assert translation


@pytest.mark.parametrize("changes", [{"average": 1, "checkpoint": "best"}, {"average": 2}])
def test_the_loss_of_a_result_is_that_of_the_kept_weights(data, tmp_path, changes):
    """Steps so large that the last epoch is not the best."""
    folder, recipe = tmp_path / "run", TranslateRecipe(data=data, **FIELDS | {"lr": 3.0, "beam": 1} | changes)
    result = train_translate(recipe, folder, machine=CPU)
    losses = [float(row["val_loss"]) for row in rows(folder / "log.csv")]
    assert losses[-1] > min(losses)
    assert result["epoch"] == (3 if recipe.average > 1 else losses.index(min(losses)) + 1)
    if recipe.average == 1:
        assert result["val_loss"] == pytest.approx(min(losses), abs=2e-6)
    model, card = load_model(folder, TranslateCard)
    pairs = TokenPairs.encoded(read_parallel(data).splits["val"], *both_from(card.vocabulary))
    batches = [collate(pairs[[place]]) for place in range(len(pairs))]
    with torch.no_grad():
        each = [
            F.cross_entropy(model.eval()(one.source, one.target_in)[0], one.target_out[0], reduction="sum")
            for one in batches
        ]
    tokens = sum(one.target_out.numel() for one in batches)
    assert result["val_loss"] == pytest.approx(float(torch.stack(each).sum()) / tokens, rel=1e-4)


def test_bleu_on_the_way(data, tmp_path):
    train_translate(
        TranslateRecipe(data=data, **FIELDS | {"epochs": 4, "bleu_every": 2}), tmp_path / "run", machine=CPU
    )
    scores = [row["val_bleu"] for row in rows(tmp_path / "run" / "log.csv")]
    assert scores[0] == scores[2] == "nan"
    assert float(scores[1]) >= 0
    assert float(scores[3]) >= 0


def test_what_is_kept_is_the_mean_of_the_last_epochs(run):
    folder, _ = run
    parts = [load_file(folder / f"weights-{place}.safetensors") for place in range(2)]
    kept = load_file(folder / "model.safetensors")
    assert not (folder / "weights-2.safetensors").exists()
    for name, tensor in kept.items():
        torch.testing.assert_close(tensor, (parts[0][name] + parts[1][name]) / 2)


@pytest.mark.parametrize("options", [{}, {"accumulate": 2, "clip": 1.0}])
def test_a_run_that_was_killed_ends_with_the_same_weights(data, tmp_path, monkeypatch, options):
    one, other = killed_and_resumed(TranslateRecipe(data=data, **FIELDS, **options), tmp_path, monkeypatch, CPU)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_checkpointing_changes_nothing_but_memory(data, tmp_path):
    for on in (False, True):
        train_translate(
            TranslateRecipe(data=data, checkpointing=on, **FIELDS | {"epochs": 1}), tmp_path / str(on), machine=CPU
        )
    one, other = (load_file(tmp_path / str(on) / "model.safetensors") for on in (False, True))
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", ["rnn", "rnn-attention"])
def test_recurrent_models_are_trained_by_the_same_call(data, tmp_path, model):
    recipe = TranslateRecipe(
        data=data, model=model, **FIELDS | {"config": {"width": 16, "hidden": 16}, "epochs": 1, "joint": False}
    )
    result = train_translate(recipe, tmp_path / "run", machine=CPU)
    assert math.isfinite(result["val_loss"])


def test_going_on_with_a_trained_model(run, data, tmp_path):
    folder, before = run
    result = train_translate(
        TranslateRecipe(data=data, init_from=str(folder), **FIELDS | {"epochs": 1, "config": {}, "lr": 1e-5}),
        tmp_path / "on",
        machine=CPU,
    )
    assert result["val_loss"] < 2 * before["val_loss"] + 0.1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "icam-31k"}, "--model: expected one of rnn, rnn-attention, transformer-tiny"),
        ({"config": {"pad": 3}}, "--config: expected fields of the model's config, got 'pad'"),
        (
            {"checkpointing": True, "model": "rnn", "config": {}},
            "--checkpointing: expected a model with a list of blocks, got rnn, which has none",
        ),
        ({"data": "nowhere.tsv"}, "nowhere.tsv"),
    ],
)
def test_what_cannot_be(data, tmp_path, changes, words):
    with pytest.raises(FovealError) as caught:
        train_translate(TranslateRecipe(**{"data": data} | FIELDS | changes), tmp_path / "run", machine=CPU)
    assert words in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_moving_average_is_what_is_kept(data, tmp_path):
    train_translate(TranslateRecipe(data=data, ema=0.5, **FIELDS | {"average": 1}), tmp_path / "run", machine=CPU)
    kept, mean = (load_file(tmp_path / "run" / name) for name in ("model.safetensors", "weights.safetensors"))
    assert all(torch.equal(kept[name], mean[name]) for name in kept)
    trained = torch.load(tmp_path / "run" / "last.ckpt", weights_only=True)["state_dict"]
    assert any(not torch.equal(kept[name], trained[f"model.{name}"]) for name in kept)


@pytest.mark.parametrize("change", ["added", "shuffled"])
def test_a_run_is_not_resumed_with_other_sentences(data, tmp_path, monkeypatch, change):
    file = tmp_path / "numbers.tsv"
    lines = Path(data).read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(lines), encoding="utf-8")
    recipe = TranslateRecipe(data=str(file), **FIELDS | {"epochs": 1})
    train_translate(recipe, tmp_path / "run", machine=CPU)
    (tmp_path / "run" / "result.json").unlink()
    changed = [*lines, "six\tsechs\ttrain\n"] if change == "added" else [lines[0], *reversed(lines[1:])]
    file.write_text("".join(changed), encoding="utf-8")
    with pytest.raises(FovealError, match="expected the data it was begun with, numbers, got data that have changed"):
        train_translate(recipe, tmp_path / "run", resume=True, machine=CPU)


def test_a_summary_of_two_seeds_has_its_origin_in_every_format(data, tmp_path):
    task, folders = find_task("translate"), [tmp_path / f"seed{seed}" for seed in (3, 4)]
    for seed, folder in zip((3, 4), folders, strict=True):
        recipe = TranslateRecipe(data=data, seed=seed, **FIELDS | {"epochs": 1})
        train_translate(recipe, folder, machine=CPU, origin={"machine": "this one"})
    text = task.summarise(folders, tmp_path)
    assert "2 seeds (3, 4)" in text
    assert "| test | BLEU, lowercased |" in text
    for ending in ("md", "csv", "tex", "json"):
        content = (tmp_path / f"summary.{ending}").read_text(encoding="utf-8")
        assert "this one" in content
        assert "test" in content
    assert json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))[1]["seed"] == 4


@pytest.mark.slow
def test_two_processes_train_as_one(data, tmp_path):
    words = [
        "--data",
        data,
        "--vocab-size",
        "300",
        "--tokens",
        "128",
        "--epochs",
        "2",
        "--average",
        "1",
        "--device",
        "cpu",
        "--lr",
        "0.003",
        "--warmup",
        "2",
    ]
    words += ["--config", "{layers: 1, decoder_layers: 1, width: 32, hidden: 64, heads: 2, dropout: 0.0}"]
    for count, strategy in ((1, "auto"), (2, "ddp")):
        done = typed(
            "train",
            "translate",
            *words,
            "--devices",
            count,
            "--strategy",
            strategy,
            "--out",
            tmp_path / f"{count}",
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert "error" not in done.stderr
    one, two = (json.loads((tmp_path / name / "result.json").read_text())["val_loss"] for name in ("1", "2"))
    assert one == pytest.approx(two, rel=2e-5)  # Adam makes steps of rounding's last bits, so weights themselves differ
    assert one < 5.5
