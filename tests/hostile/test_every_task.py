"""What every task inherits: the same hostile situations for the models of each, from its tests/tasks/TASK/tiny.py."""

import pytest
from hostile.broken import cut, file, pipe, set_field, together, with_card, with_weights
from hostile.situation import Situation, check, params

GONE = "no model (that [a-z]+ )?is called|the model[^:]*: expected|--(model|init-from): expected"

MISTYPED = [
    Situation(f"{stage}, a model that is not there", argv, GONE, quick=stage in ("predict", "explain"))
    for stage, argv in {
        "predict": ("predict", "runz", "{inputs}"),
        "predict, in a folder": ("predict", "runs/gone", "{inputs}"),
        "explain": ("explain", "runz", "{subject}"),
        "explain, in a folder": ("explain", "runs/gone/x", "{subject}"),
        "evaluate": ("evaluate", "runz", "--data", "{data}"),
        "export": ("export", "runz", "--out", "new.onnx"),
        "prune": ("prune", "runz", "--parameters", "10k", "--out", "new.safetensors"),
        "bench": ("bench", "models", "runz", "--out", "new"),
        "evaluate, beside": ("evaluate", "run", "--beside", "runz"),
        "train, --init-from": ("train", "{task}", "--data", "{data}", "{bare}", "--init-from", "runz", "--out", "new"),
        "train, --model": ("train", "{task}", "--data", "{data}", "{bare}", "--model", "runz", "--out", "new"),
    }.items()
]

REPLACED = [
    Situation(
        f"--out is what is read: {name}",
        argv,
        "another name than what is read|outside of|a new or empty one|a name that ends in",
        quick=name == "predict, the model",
    )
    for name, argv in {
        "predict, the model": ("predict", "model.safetensors", "{inputs}", "--out", "model.safetensors"),
        "predict, the model by another path": (
            "predict",
            "model.safetensors",
            "{inputs}",
            "--out",
            "./run/../model.safetensors",
        ),
        "predict, the run's model": ("predict", "run", "{inputs}", "--out", "run/model.safetensors"),
        "predict, an exported model": ("predict", "model.onnx", "{inputs}", "--out", "model.onnx"),
        "explain, the model": ("explain", "model.safetensors", "{subject}", "--out", "model.safetensors"),
        "explain, arrays": ("explain", "model.safetensors", "{subject}", "--arrays", "model.safetensors"),
        "export, the model": ("export", "model.safetensors", "--out", "model.safetensors"),
        "export, the run's model": ("export", "run", "--out", "run/model.safetensors"),
        "prune, the model": ("prune", "model.safetensors", "--heads", "0:0", "--out", "model.safetensors"),
        "prune, the run's model": ("prune", "run", "--heads", "0:0", "--out", "run/model.safetensors"),
        "evaluate, the model": ("evaluate", "model.safetensors", "--data", "{data}", "--out", "model.safetensors"),
        "evaluate, the data": ("evaluate", "model.safetensors", "--data", "{data}", "--out", "{data}"),
        "evaluate, the run's own data": ("evaluate", "run", "--out", "{own}"),
        "train, the data": ("train", "{task}", "--data", "{data}", "{flags}", "--out", "{data}"),
        "train, inside of the data": ("train", "{task}", "--data", "data", "{flags}", "--out", "data/run"),
        "bench, the model": ("bench", "models", "model.onnx", "--rounds", "2", "--out", "model.onnx"),
    }.items()
]

REPLACED += [
    Situation(
        "--out is what is read: predict, the list on stdin",
        ("predict", "run", "-", "--out", "list.csv"),
        "another name than what is read",
        file("list.csv", b"one\ntwo\n"),
        stdin_file="list.csv",
    )
]

PIPES = [
    Situation(f"a pipe as {name}", argv, "plain file", pipe(file_name), apart=True)
    for name, file_name, argv in (
        ("the model", "x.safetensors", ("predict", "x.safetensors", "{inputs}")),
        ("the exported model", "x.onnx", ("predict", "x.onnx", "{inputs}")),
        ("a model to explain", "x.onnx", ("explain", "x.onnx", "{subject}")),
        ("a model to evaluate", "x.safetensors", ("evaluate", "x.safetensors", "--data", "{data}")),
        ("a model to export", "x.safetensors", ("export", "x.safetensors", "--out", "new.onnx")),
        ("a recipe", "x.yaml", ("train", "{task}", "--recipe", "x.yaml", "--out", "new")),
        ("data", "x.tsv", ("train", "{task}", "--data", "x.tsv", "{flags}", "--out", "new")),
        (
            "weights to begin with",
            "x.safetensors",
            ("train", "{task}", "--data", "{data}", "{bare}", "--init-from", "x.safetensors", "--out", "new"),
        ),
        ("what show describes", "x.onnx", ("show", "x.onnx")),
    )
]


def deep(card):
    for name in ("layers", "decoder_layers"):
        if name in card["config"]:
            card["config"][name] = 1_000_000
    if "stages" in card["config"]:
        card["config"]["stages"] = card["config"]["stages"] * 100_000


EVIL = "a\nb\x1b[31mred\x07"


def evil(card):
    card["model"] = EVIL
    if "classes" in card:
        card["classes"][0] = EVIL


DAMAGED = [
    Situation(f"{stage}: {name}", argv, line, make, apart=name == "a card of a million layers")
    for name, make, line in (
        ("cut short", cut("model.safetensors", "bad.safetensors"), "safetensors"),
        ("empty", file("bad.safetensors"), "safetensors"),
        ("a card of a million layers", with_card(deep), "blocks|fields|layers"),
        ("a card that is a list", with_card(lambda card: [1]), "card"),
        ("a config that is text", with_card(set_field(config="x")), "config"),
        ("evil text", with_card(evil), "printable"),
    )
    for stage, argv in (
        ("predict", ("predict", "bad.safetensors", "{inputs}")),
        ("explain", ("explain", "bad.safetensors", "{subject}")),
        ("export", ("export", "bad.safetensors", "--out", "new.onnx")),
        ("show", ("show", "bad.safetensors")),
    )
    if not (stage == "show" and name == "a card of a million layers")
] + [
    Situation(
        "an exported file that was cut",
        ("predict", "bad.onnx", "{inputs}"),
        "onnxruntime",
        cut("model.onnx", "bad.onnx"),
    ),
    Situation("a folder without a model", ("predict", "folder", "{inputs}"), "", file("folder/notes.txt")),
    Situation(
        "NaN in --init-from",
        ("train", "{task}", "--data", "{data}", "{bare}", "--init-from", "bad.safetensors", "--out", "new"),
        "NaN",
        with_weights(float("nan")),
    ),
    Situation(
        "NaN in --model",
        ("train", "{task}", "--data", "{data}", "{bare}", "--model", "bad.safetensors", "--out", "new"),
        "NaN",
        with_weights(float("nan")),
    ),
    Situation(
        "prune NaN",
        ("prune", "bad.safetensors", "--heads", "0:0", "--out", "new.safetensors"),
        "NaN|nan|finite",
        with_weights(float("nan")),
    ),
    Situation(
        "export NaN", ("export", "bad.safetensors", "--out", "new.onnx"), "NaN|nan|finite", with_weights(float("nan"))
    ),
]
RESUME = ("train", "{task}", "--data", "{data}", "{flags}", "--out", "run", "--resume")


def remove(*names):
    def make(place):
        for name in names:
            (place / name).unlink()

    return make


RUNS = [
    Situation(
        f"resumed: {name}",
        RESUME,
        line,
        make,
        talks=True,
        changes=("run/tensorboard",),
        quick=name == "result.json is empty",
    )
    for name, line, make in (
        ("result.json is empty", "result.json", file("run/result.json")),
        ("result.json is a list", "result.json", file("run/result.json", b"[1]")),
        ("result.json is binary", "result.json", file("run/result.json", b"\xff\xfe")),
        ("result.json is cut", "result.json", file("run/result.json", b'{"epo')),
        ("result.json lacks fields", "result.json", file("run/result.json", b'{"model": "x"}')),
        (
            "result.json has text for numbers",
            "result.json",
            file("run/result.json", b'{"model": "x", "epoch": "1", "val_score": "x", "seconds": "s"}'),
        ),
        ("recipe.yaml is broken", "recipe.yaml", file("run/recipe.yaml", b": : [")),
        ("recipe.yaml is binary", "recipe.yaml", file("run/recipe.yaml", b"\xff\xfe\x00")),
        ("recipe.yaml is a list", "recipe.yaml", file("run/recipe.yaml", b"[1]")),
        ("recipe.yaml is gone", "other files|recipe", remove("run/recipe.yaml")),
        ("data.json is broken", "data.json", together(file("run/data.json", b"{"), remove("run/result.json"))),
        ("data.json is a list", "data.json", together(file("run/data.json", b"[]"), remove("run/result.json"))),
        (
            "last.ckpt is empty",
            "last.ckpt: expected a checkpoint, got a damaged",
            together(file("run/last.ckpt"), remove("run/result.json")),
        ),
        (
            "weights.safetensors is damaged",
            "weights.safetensors",
            together(file("run/weights.safetensors", b"x" * 100), remove("run/result.json")),
        ),
        ("last.ckpt is text", "last.ckpt", together(file("run/last.ckpt", b"hello"), remove("run/result.json"))),
    )
]


@pytest.mark.parametrize("situation", params([*MISTYPED, *REPLACED, *PIPES, *DAMAGED, *RUNS]))
def test_situation(situation, task, bench, capfd):
    made = bench(task)
    check(situation, made.place, capfd, made.words)
