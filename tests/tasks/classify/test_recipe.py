"""Recipes: every setting from a flag, a file or a shipped recipe, and one line for what does not fit."""

import argparse
import dataclasses
from importlib import resources

import pytest
import yaml

from foveal.errors import FovealError
from foveal.options import parsed, read_options
from foveal.tasks.classify import train_command
from foveal.tasks.classify.recipe import ClassifyRecipe

OTHERS = {  # a value for each setting that is not its default, as typed and as meant
    "data": ("photos", "photos"),
    "label": ("kind", "kind"),
    "model": ("icam-30k", "icam-30k"),
    "settings": ("{first: static, queries: 3}", {"first": "static", "queries": 3}),
    "start": ("m.safetensors", "m.safetensors"),
    "teachers": ("/runs/fold{fold}-*", "/runs/fold{fold}-*"),
    "truth": ("0.5", 0.5),
    "size": ("112", 112),
    "epochs": ("7", 7),
    "batch": ("11", 11),
    "lr": ("3e-4", 3e-4),
    "backbone": ("0.1", 0.1),
    "decay": ("0", 0),
    "warmup": (".1", 0.1),
    "smoothing": ("0.02", 0.02),
    "balance": ("sampling", "sampling"),
    "margin": ("1.8", 1.8),
    "ema": ("0", 0),
    "mixup": ("1e-1", 0.1),
    "augment": ("none", "none"),
    "keep": ("last", "last"),
    "patience": ("5", 5),
    "clip": ("0.5", 0.5),
    "precision": ("16", "16"),
    "seed": ("13", 13),
    "by": ("campaign", "campaign"),
    "fold": ("2", 2),
    "blank": ("[[0, 0, 0.5, 0.1]]", [[0, 0, 0.5, 0.1]]),
}
NAMES = [one.name for one in dataclasses.fields(ClassifyRecipe)]


def recipe_of(*words):
    parser = argparse.ArgumentParser()
    train_command.add_arguments(parser)
    return train_command.recipe_of(parser.parse_args(["classify", *words]))


def test_every_setting_has_a_flag():
    assert set(OTHERS) == set(NAMES)
    for name, (text, value) in OTHERS.items():
        assert getattr(recipe_of(f"--{name}", text), name) == value != getattr(ClassifyRecipe(), name), name
    every = recipe_of(*(word for name, (text, _) in OTHERS.items() for word in (f"--{name}", text)))
    assert dataclasses.asdict(every) == {name: value for name, (_, value) in OTHERS.items()}


def test_a_recipe_is_read_as_it_is_written(tmp_path):
    every = ClassifyRecipe(**{name: value for name, (_, value) in OTHERS.items()})
    (tmp_path / "r.yaml").write_text(every.text())
    assert ClassifyRecipe(**read_options(str(tmp_path / "r.yaml"), ClassifyRecipe)) == every
    assert ClassifyRecipe(**yaml.safe_load(ClassifyRecipe().text())) == ClassifyRecipe()


def test_flags_over_file(tmp_path):
    (tmp_path / "r.yaml").write_text("epochs: 3\nlr: 0.5\nbalance: weights\n")
    recipe = recipe_of("--recipe", str(tmp_path / "r.yaml"), "--lr", "0.25")
    assert (recipe.epochs, recipe.lr, recipe.balance, recipe.batch) == (3, 0.25, "weights", ClassifyRecipe().batch)


def test_shipped_recipes_load():
    shipped = [entry.name.removesuffix(".yaml") for entry in (resources.files("foveal.train") / "recipes" / "classify").iterdir()]
    assert {"demo", "pipes", "published"} <= set(shipped)
    for name in shipped:
        assert recipe_of("--recipe", name) != ClassifyRecipe()
    assert recipe_of("--recipe", "published").epochs == 90


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("epoch: 3", "no setting in the recipe .* is called 'epoch'; the nearest is 'epochs'"),
        ("- 3", "expected settings and their values, got \\[3\\]"),
        ("lr: [", "expected YAML, got .*"),
        ("3: 4", "no setting in the recipe .* is called '3'"),
    ],
)
def test_a_bad_file(tmp_path, text, says):
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(FovealError, match=says) as caught:
        read_options(str(tmp_path / "r.yaml"), ClassifyRecipe)
    assert "\n" not in str(caught.value)


def test_no_such_recipe(tmp_path):
    with pytest.raises(FovealError, match="no recipe is called 'publish'; the nearest is 'published'"):
        read_options("publish", ClassifyRecipe)
    with pytest.raises(FovealError, match="expected a file that can be read"):
        read_options(str(tmp_path / "none.yaml"), ClassifyRecipe)
    (tmp_path / "latin.yaml").write_bytes(b"data: caf\xe9")
    with pytest.raises(FovealError, match="expected a file that can be read"):
        read_options(str(tmp_path / "latin.yaml"), ClassifyRecipe)
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert read_options(str(tmp_path / "empty.yaml"), ClassifyRecipe) == {}


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("lr", "nan", "a number, at least 0, got nan"),
        ("lr", ".nan", "a number, at least 0, got nan"),
        ("lr", "inf", "got inf"),
        ("lr", "-1", "got -1"),
        ("lr", "fast", "got 'fast'"),
        ("lr", "true", "a number"),
        ("epochs", "0", "an integer, at least 1, got 0"),
        ("epochs", "2.5", "got 2.5"),
        ("batch", "multi_label", "got 'many'"),
        ("size", "8", "at least 16, got 8"),
        ("balance", "weight", "one of none, weights, margin, sampling, got 'weight'"),
        ("precision", "64", "one of 32, tf32, 16, bf16, got '64'"),
        ("settings", "3", "a dict, got 3"),
        ("settings", "{", "a dict, got"),
        ("blank", "left", "a list, got 'left'"),
        ("blank", "[0, 0, 1, 1]", "boxes"),
        ("blank", "[[0, 0, 1]]", "boxes"),
        ("blank", "[[0, 0, 0.5, x]]", "boxes"),
        ("fold", "-1", "at least 0, got -1"),
        ("fold", "first", "got 'first'"),
        ("ema", "1", "below 1"),
        ("ema", "2", "below 1"),
        ("smoothing", "1.5", "below 1"),
        ("warmup", "1", "below 1"),
    ],
)
def test_a_bad_value(name, text, says):
    with pytest.raises(FovealError, match=f"the setting {name}: expected .*{says}") as caught:
        recipe_of(f"--{name}", text)
    assert "\n" not in str(caught.value)


def test_parsed_leaves_text_alone():
    assert parsed(ClassifyRecipe, "data", "2017") == "2017"
    assert parsed(ClassifyRecipe, "start", "null") == "null"
    assert parsed(ClassifyRecipe, "precision", "32") == "32"
    assert parsed(ClassifyRecipe, "fold", "null") is None


def test_changed_is_checked():
    assert ClassifyRecipe().changed(fold=2, seed=3).fold == 2
    with pytest.raises(FovealError, match="seed"):
        ClassifyRecipe().changed(seed=-1)
    one, other = ClassifyRecipe(), ClassifyRecipe()
    one.settings["a"] = 1
    assert other.settings == {}, "each recipe has its own"
