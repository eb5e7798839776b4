"""Recipes: every option from a flag, a file or a shipped recipe, and one line for what does not fit."""

import argparse
import dataclasses

import pytest
import yaml

from foveal.errors import FovealError
from foveal.options import add_flags, from_flags, parsed, read_options
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.task import find_task
from foveal.tasks.train import default_recipe
from foveal.tasks.train import recipe_of as whole_recipe

OTHERS = {  # a value for each option that is not its default, as typed and as meant
    "data": ("photos", "photos"),
    "label": ("kind", "kind"),
    "model": ("icam-30k", "icam-30k"),
    "config": ("{first: static, queries: 3}", {"first": "static", "queries": 3}),
    "init_from": ("m.safetensors", "m.safetensors"),
    "teachers": ("/runs/fold{fold}-*", "/runs/fold{fold}-*"),
    "num_teachers": ("2", 2),
    "teacher_recipe": ("published", "published"),
    "views": ("3", 3),
    "label_weight": ("0.5", 0.5),
    "hints": ("imagenet", "imagenet"),
    "hint_weight": ("0.7", 0.7),
    "size": ("112", 112),
    "epochs": ("7", 7),
    "batch": ("11", 11),
    "lr": ("3e-4", 3e-4),
    "backbone_lr": ("0.1", 0.1),
    "weight_decay": ("0", 0),
    "warmup": (".1", 0.1),
    "label_smoothing": ("0.02", 0.02),
    "balance": ("margin", "margin"),
    "accumulate": ("3", 3),
    "average": ("4", 4),
    "checkpointing": ("true", True),
    "cuda_graphs": ("false", False),
    "margin": ("1.8", 1.8),
    "ema": ("0", 0),
    "mixup": ("1e-1", 0.1),
    "cutmix": ("0.5", 0.5),
    "augment": ("none", "none"),
    "checkpoint": ("last", "last"),
    "patience": ("5", 5),
    "clip": ("0.5", 0.5),
    "precision": ("16", "16"),
    "seed": ("13", 13),
    "fold_column": ("campaign", "campaign"),
    "fold": ("2", 2),
    "blank": ("[[0, 0, 0.5, 0.1]]", [[0, 0, 0.5, 0.1]]),
}
NAMES = [one.name for one in dataclasses.fields(ClassifyRecipe)]


# Not beside another: teachers are trained already, or first; images are mixed whole, or by windows.
ALONE = {"teachers": None, "cutmix": 0.0}
SHIPPED = find_task("classify").folder / "recipes"


def flag(name):
    return f"--{name.replace('_', '-')}"


def recipe_of(*words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--recipe")
    add_flags(parser, ClassifyRecipe)
    args = parser.parse_args(words)
    return whole_recipe(find_task("classify"), args.recipe, from_flags(args, ClassifyRecipe))


def test_every_option_has_a_flag():
    assert set(OTHERS) == set(NAMES)
    needs = {
        "margin": ["--balance", "margin"],
        "teacher_recipe": ["--num-teachers", "2"],
        "hint_weight": ["--hints", "imagenet"],
    }
    for name, (text, value) in OTHERS.items():
        beside = needs.get(name, [])
        assert getattr(recipe_of(flag(name), text, *beside), name) == value != getattr(ClassifyRecipe(), name), name
    some = {name: one for name, one in OTHERS.items() if name not in ALONE}
    every = recipe_of(*(word for name, (text, _) in some.items() for word in (flag(name), text)))
    assert dataclasses.asdict(every) == {name: value for name, (_, value) in some.items()} | ALONE


def test_a_recipe_is_read_as_it_is_written(tmp_path):
    every = ClassifyRecipe(**{name: value for name, (_, value) in OTHERS.items() if name not in ALONE})
    (tmp_path / "r.yaml").write_text(every.text())
    assert ClassifyRecipe(**read_options(str(tmp_path / "r.yaml"), ClassifyRecipe, SHIPPED)) == every
    assert ClassifyRecipe(**yaml.safe_load(ClassifyRecipe().text())) == ClassifyRecipe()


def test_flags_over_file(tmp_path):
    (tmp_path / "r.yaml").write_text("epochs: 3\nlr: 0.5\nbalance: weights\n")
    recipe = recipe_of("--recipe", str(tmp_path / "r.yaml"), "--lr", "0.25")
    assert (recipe.epochs, recipe.lr, recipe.balance, recipe.batch) == (3, 0.25, "weights", ClassifyRecipe().batch)


def test_shipped_recipes_load():
    shipped = [file.stem for file in SHIPPED.glob("*.yaml")]
    assert {"demo", "pipes", "published", "small", "small-pipes", "teacher"} <= set(shipped)
    for name in shipped:
        assert recipe_of("--recipe", name) != ClassifyRecipe()
    assert recipe_of("--recipe", "published").epochs == 90


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("epoch: 3", "no option in the recipe .* is called 'epoch'; the nearest is 'epochs'"),
        ("- 3", "expected options and their values, got \\[3\\]"),
        ("lr: [", "expected YAML, got .*"),
        ("3: 4", "no option in the recipe .* is called '3'"),
    ],
)
def test_a_bad_file(tmp_path, text, says):
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(FovealError, match=says) as caught:
        read_options(str(tmp_path / "r.yaml"), ClassifyRecipe, SHIPPED)
    assert "\n" not in str(caught.value)


def test_no_such_recipe(tmp_path):
    with pytest.raises(FovealError, match="no recipe is called 'publish'; the nearest is 'published'"):
        read_options("publish", ClassifyRecipe, SHIPPED)
    with pytest.raises(FovealError, match=r"cannot read .*none.yaml: No such file"):
        read_options(str(tmp_path / "none.yaml"), ClassifyRecipe, SHIPPED)
    (tmp_path / "latin.yaml").write_bytes(b"data: caf\xe9")
    with pytest.raises(FovealError, match="expected a file that can be read"):
        read_options(str(tmp_path / "latin.yaml"), ClassifyRecipe, SHIPPED)
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert read_options(str(tmp_path / "empty.yaml"), ClassifyRecipe, SHIPPED) == {}


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("lr", "nan", "a number, at least 0, got nan"),
        ("lr", ".nan", "a number, at least 0, got '.nan'"),
        ("lr", "inf", "got inf"),
        ("lr", "-1", "got -1"),
        ("lr", "fast", "got 'fast'"),
        ("lr", "true", "a number"),
        ("epochs", "0", "an integer, at least 1, got 0"),
        ("epochs", "2.5", "got '2.5'"),
        ("batch", "many", "got 'many'"),
        ("size", "8", "at least 16, got 8"),
        ("balance", "weight", "one of none, weights, margin, sampling, got 'weight'"),
        ("precision", "64", "one of 32, tf32, 16, bf16, got '64'"),
        ("config", "3", "a dict, got 3"),
        ("config", "{", "a dict, got"),
        ("blank", "left", "a list, got 'left'"),
        ("blank", "[0, 0, 1, 1]", "boxes"),
        ("blank", "[[0, 0, 1]]", "boxes"),
        ("blank", "[[0, 0, 0.5, x]]", "boxes"),
        ("fold", "-1", "at least 0, got -1"),
        ("fold", "first", "got 'first'"),
        ("ema", "1", "below 1"),
        ("ema", "2", "below 1"),
        ("label_smoothing", "1.5", "below 1"),
        ("warmup", "1", "below 1"),
    ],
)
def test_a_bad_value(name, text, says):
    with pytest.raises(FovealError, match=f"{flag(name)}: expected .*{says}") as caught:
        recipe_of(flag(name), text)
    assert "\n" not in str(caught.value)


def test_parsed_leaves_text_alone():
    assert parsed(ClassifyRecipe, "data", "2017") == "2017"
    assert parsed(ClassifyRecipe, "init_from", "null") == "null"
    assert parsed(ClassifyRecipe, "precision", "32") == "32"
    assert parsed(ClassifyRecipe, "fold", "null") is None


def test_changed_is_checked():
    assert ClassifyRecipe().changed(fold=2, seed=3).fold == 2
    with pytest.raises(FovealError, match="seed"):
        ClassifyRecipe().changed(seed=-1)
    one, other = ClassifyRecipe(), ClassifyRecipe()
    one.config["a"] = 1
    assert other.config == {}, "each recipe has its own"


def test_the_best_epoch_and_a_mean_of_epochs_exclude_each_other(tmp_path):
    """In either task, as flags or beside what a recipe has; a default contradicts nobody."""
    classify, translate = find_task("classify"), find_task("translate")
    says = "--checkpoint best: expected --average 1 beside it, got {}; a mean has no best epoch"
    for task, name, values, average in (
        (classify, None, {"checkpoint": "best", "average": 3}, 3),
        (translate, None, {"data": "grammar", "checkpoint": "best"}, 5),
        (translate, "multi30k", {"data": "grammar", "checkpoint": "best"}, 10),
    ):
        with pytest.raises(FovealError, match=f"^{says.format(average)}$"):
            whole_recipe(task, name, values)
    assert whole_recipe(classify, None, {"average": 3}).average == 3
    assert whole_recipe(translate, None, {"data": "grammar", "checkpoint": "best", "average": 1}).checkpoint == "best"
    assert whole_recipe(translate, None, {"data": "grammar"}).average == 5
    (tmp_path / "r.yaml").write_text(ClassifyRecipe(average=3).text())  # as each run of a sweep is given its own
    assert whole_recipe(classify, str(tmp_path / "r.yaml"), {}).average == 3


def test_a_recipe_is_chosen_where_neither_a_recipe_nor_data_is_named():
    translate = find_task("translate")
    assert default_recipe(find_task("classify"), {}) is None
    assert default_recipe(translate, {"epochs": 2}) == "grammar"
    assert default_recipe(translate, {"data": "grammar"}) is None
    assert whole_recipe(translate, None, {"epochs": 2}).average == 3, "as grammar.yaml has it"
