"""What a recipe leaves open is chosen by what the data are, and each choice says why."""

import pytest

from foveal.data.direction import Direction
from foveal.tasks.segment.choose import augmentation_for, choose, thin_classes, zoom_for
from foveal.tasks.segment.recipe import SegmentRecipe

PROPERTIES = {"images": 300, "height": 300, "width": 400, "side": [8.0, 21.0, 90.0], "empty": 0.7, "thins": [0.1, 0.8]}


@pytest.mark.parametrize(
    ("side", "finding", "zoom"),
    [
        (300, 20, 1.0),
        (160, 20, 1.0),
        (100, 20, 2.0),
        (50, 9, 4.0),
        (10, 3, 4.0),
        (2000, 40, 0.5),
        (2000, 11, 1.0),
        (9000, 200, 0.125),
    ],
)
def test_images_are_enlarged_where_they_are_small_and_shrunk_where_findings_stay_large_enough(side, finding, zoom):
    assert zoom_for(side, finding) == zoom


def test_what_is_open_is_chosen_and_the_reasons_name_it():
    recipe, reasons = choose(SegmentRecipe(), PROPERTIES, ("hole", "crack"))
    assert (recipe.zoom, recipe.size, recipe.found, recipe.paste, recipe.skeleton) == (1.0, 256, 2 / 3, 0.5, 1.0)
    assert recipe.epochs == 160
    assert [line.split(" ")[0] for line in reasons] == [
        "zoom",
        "size",
        "found",
        "paste",
        "skeleton",
        "augment",
        "epochs",
    ]
    assert "crack" in reasons[4]
    assert "hole" not in reasons[4]


def test_what_is_given_stays():
    given = SegmentRecipe(zoom=2.0, size=64, found=0.5, paste=0.0, skeleton=0.0, epochs=3, augment="pipe")
    assert choose(given, PROPERTIES, ("hole", "crack")) == (given, ())


def test_windows_are_no_larger_than_small_images():
    recipe, _ = choose(SegmentRecipe(zoom=1.0), PROPERTIES | {"height": 100}, ("hole", "crack"))
    assert recipe.size == 96


def test_nothing_is_pasted_where_no_image_is_empty():
    recipe, _ = choose(SegmentRecipe(), PROPERTIES | {"empty": 0.0, "thins": [0.0, 0.0]}, ("hole", "crack"))
    assert (recipe.paste, recipe.skeleton, recipe.found) == (0.0, 0.0, 1.0)


def test_thin_classes():
    assert thin_classes({"thins": [0.49, 0.5, 1.0]}) == [1, 2]


@pytest.mark.parametrize(
    ("direction", "augment"),
    [
        (None, "upright"),
        (Direction(40, 0.2, 0.0, 0.0), "upright"),
        (Direction(40, 0.01, 0.2, 0.0), "grain"),
        (Direction(40, 0.01, 0.01, 1.0), "grain"),
        (Direction(40, 0.01, 0.01, 0.1), "free"),
    ],
)
def test_images_are_turned_as_they_lie(direction, augment):
    assert augmentation_for(direction)[0] == augment
    recipe, reasons = choose(SegmentRecipe(), PROPERTIES, ("hole", "crack"), lambda: direction)
    assert recipe.augment == augment
    assert any(line.startswith(f"augment {augment}: ") for line in reasons)
