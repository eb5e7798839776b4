"""scripts/search_small.py: many recipes in one process, pupils after their teachers."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from foveal.models.store import normalisation
from foveal.tasks.classify.reading import read_for
from foveal.tasks.classify.recipe import ClassifyRecipe

SCRIPT = Path(__file__).parents[3] / "scripts/search_small.py"
SMALL = {"model": "icam-fast", "size": 56, "config": {"image": 56, "patch": 56}, "batch": 8, "epochs": 1, "ema": 0}
# Another size and another normalisation than those of SMALL, and a moving average of its own.
LITE = {"image": 64, "patch": 64, "pool": 8}
OTHER = {"model": "icam-lite", "size": 64, "config": LITE, "batch": 5, "epochs": 1, "ema": 0.9}


def script():
    spec = importlib.util.spec_from_file_location("search_small", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written(tmp_path, search):
    (tmp_path / "search.yaml").write_text(yaml.safe_dump(search, sort_keys=False), encoding="utf-8")
    return tmp_path / "search.yaml"


def searched(tmp_path, search):
    return subprocess.run(
        [sys.executable, SCRIPT, written(tmp_path, search)], check=False, capture_output=True, text=True
    )


@pytest.mark.slow
def test_a_line_for_each_variant(tmp_path):
    variants = {"teacher": OTHER, "labels": {}, "taught": {"taught_by": ["teacher"]}}
    done = searched(tmp_path, {"base": {"data": "pipes:40", **SMALL}, "seeds": [0, 1], "variants": variants})
    assert done.returncode == 0, done.stderr
    lines = [
        re.fullmatch(r" *\d+ s  (\w+): [\d.]+ \(seeds (.*); runs .*\), [\d,]+ parameters", line)
        for line in done.stdout.splitlines()
    ]
    assert [line[1] for line in lines] == list(variants)
    assert all(len(line[2].split()) == 2 for line in lines)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Frequent dark images and rare bright ones, two of which, one to train and one to test, cannot be read."""
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    rows = ["file,label,split"]
    for place in range(22):
        bright, split = place % 4 == 0, ("train", "train", "val", "test")[place // 2 % 4]
        pixels = rng.integers(0, 128, (64, 64, 3), dtype=np.uint8) + np.uint8(120 * bright)
        Image.fromarray(pixels).save(folder / f"{place}.png")
        rows.append(f"{place}.png,{'bright' if bright else 'dark'},{split}")
    for split in ("train", "test"):
        (folder / f"bad-{split}.png").write_bytes(b"no image")
        rows.append(f"bad-{split}.png,dark,{split}")
    (folder / "labels.csv").write_text("\n".join(rows), encoding="utf-8")
    return folder


@pytest.fixture
def search(photos):
    return script().Search(read_for(ClassifyRecipe(data=str(photos))), torch.device("cpu"))


def recipe_of(photos, fields, **changes):
    return ClassifyRecipe(**{"data": str(photos), "augment": "none", **fields, **changes})


def test_who_is_taught_learns_something_else(search, photos):
    search.train("teacher", recipe_of(photos, OTHER), [])
    labels, *_ = search.train("labels", recipe_of(photos, SMALL), [])
    again, *_ = search.train("labels", recipe_of(photos, SMALL), [])
    taught, *_ = search.train("taught", recipe_of(photos, SMALL), ["teacher"])
    assert torch.equal(labels, again)
    assert (taught - labels).abs().max() > 1e-4


def test_a_teacher_answers_its_pupil_as_it_was_scored(search, photos):
    """Whatever the pupil's normalisation, with the moving average, and with the shift of a margin."""
    fields = OTHER | {"balance": "margin", "margin": 3.0, "epochs": 2}
    scored, truth, module = search.train("teacher", recipe_of(photos, fields), [])
    pupil = recipe_of(photos, SMALL, size=64, config={"image": 64, "patch": 64})
    _, _, other = search.train("pupil", pupil, [])
    mean, std = normalisation(other.model)
    assert (mean, std) != normalisation(module.model)
    tested = search.data(pupil).splits.val
    assert len(tested) == len(truth)
    images = other.input.scaled(search.images[64][tested].permute(0, 3, 1, 2))
    answers = search.teachers(["teacher"], pupil, mean, std)(other.normalised(images))
    torch.testing.assert_close(answers, scored.softmax(1), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        latest = module.model.eval()(module.normalised(images)) + module.shift
    assert (latest - scored).abs().max() > 1e-3  # the average is another model


def test_a_teacher_sees_the_images_of_its_pupil_at_its_own_size(search, photos):
    search.train("teacher", recipe_of(photos, OTHER), [])
    pupil = recipe_of(photos, SMALL)
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
    teachers = search.teachers(["teacher"], pupil, mean, std)
    sizes = []
    teachers.models[0].register_forward_pre_hook(lambda _, given: sizes.append(tuple(given[0].shape)))
    assert teachers(torch.zeros(3, 3, 56, 56)).shape == (3, 2)
    assert sizes == [(3, 3, 64, 64)]


def test_a_margin_shifts_what_is_scored(search, photos):
    fields = SMALL | {"balance": "margin"}
    plain, _, _ = search.train("one", recipe_of(photos, fields), [])
    shifted, _, module = search.train("three", recipe_of(photos, fields, margin=3.0), [])
    assert module.shift.abs().max() > 0.1
    torch.testing.assert_close(shifted, plain + module.shift, rtol=1e-5, atol=1e-5)


def test_images_that_cannot_be_read_are_left_out(search, photos, capsys):
    search.split = "test"
    output, truth, _ = search.train("labels", recipe_of(photos, SMALL), [])
    assert len(output) == len(truth) == 4
    assert len(search.data(recipe_of(photos, SMALL)).splits.train) == 12
    assert capsys.readouterr().err == "left out: 2 images that cannot be read\n"


BAD = {
    "a teacher that nobody knows": (
        {"taught_by": ["nobody"]},
        "taught_by of some: expected names of variants before it, got nobody",
    ),
    "a teacher that is no list": ({"taught_by": "some"}, "taught_by of some: expected a list of names, got 'some'"),
    "a mistyped field": ({"epoch": 3}, "no option of the variant some is called 'epoch'; the nearest is 'epochs'"),
    "a value of another kind": ({"epochs": "many"}, "--epochs: expected an integer, at least 1, got 'many'"),
    "num_teachers": ({"num_teachers": 2}, "num_teachers of the variant some: expected 0 in a search, got 2"),
    "teacher_recipe": (
        {"num_teachers": 2, "teacher_recipe": "small-pipes"},
        "num_teachers of the variant some: expected 0 in a search, got 2",
    ),
    "teachers": ({"teachers": "runs/*"}, "teachers of the variant some: expected None in a search, got 'runs/*'"),
    "accumulate": ({"accumulate": 2}, "accumulate of the variant some: expected 1 in a search, got 2"),
    "average": ({"average": 5}, "average of the variant some: expected 1 in a search, got 5"),
    "checkpointing": ({"checkpointing": True}, "checkpointing of the variant some: expected False in a search"),
    "patience": ({"patience": 7}, "patience of the variant some: expected 0 in a search, got 7"),
    "blank": ({"blank": [[0, 0, 1, 0.1]]}, "blank of the variant some: expected [] in a search"),
    "precision": ({"precision": "bf16"}, "precision of the variant some: expected 32 or tf32 in a search, got bf16"),
    "sampling": ({"balance": "sampling"}, "balance of the variant some: expected no sampling in a search"),
    "seed": ({"seed": 1}, "seed of the variant some: expected seeds of the whole search, got 1"),
    "fold": ({"fold": 1}, "fold of the variant some: expected folds of the whole search, got 1"),
    "data": ({"data": "pipes:9"}, "data of the variant some: expected none, since all are compared on the same"),
    "no fields": (["epochs"], "the variant some: expected names and values, got ['epochs']"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_a_search_cannot_do_is_refused_in_one_line(tmp_path, case):
    fields, words = BAD[case]
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        script().read_plan(written(tmp_path, {"base": {}, "variants": {"some": fields}}))
    assert "\n" not in str(caught.value)


def test_a_split_that_cannot_be_scored(tmp_path):
    with pytest.raises(ValueError, match="no split is called 'train'; there are test, val"):
        script().read_plan(written(tmp_path, {"base": {}, "split": "train", "variants": {"some": {}}}))


@pytest.mark.slow
def test_a_mistyped_part_of_the_file(tmp_path):
    done = searched(tmp_path, {"base": {}, "seed": [0], "variants": {"some": {}}})
    assert done.returncode == 1
    assert re.fullmatch(r"error: no part of .* is called 'seed'; the nearest is 'seeds'; .*\n", done.stderr)


def test_precision_tf32_and_what_only_the_variants_name(tmp_path):
    variants = {"teacher": {"precision": "tf32"}, "labels": None, "taught": {"taught_by": ["teacher"], "epochs": 2}}
    plan = script().read_plan(written(tmp_path, {"base": {"size": 64}, "folds": 3, "variants": variants}))
    assert plan.folds == [0, 1, 2]
    assert plan.split == "val"  # the test split chooses no recipe
    assert plan.seeds == [0]
    assert plan.variants["taught"].taught_by == ["teacher"]
    assert [(one.recipe.size, one.recipe.epochs) for one in plan.variants.values()] == [(64, 90), (64, 90), (64, 2)]
