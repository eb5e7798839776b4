"""What a recipe leaves open, chosen by what the data reader has measured; each choice with its reason.

No set is known here by its name: sides of images and findings, the share of empty images, how thin findings are, and
how many images there are.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from foveal.data.direction import Direction
from foveal.tasks.segment.card import ZOOMS
from foveal.tasks.segment.recipe import SegmentRecipe
from foveal.tasks.task import Settled

SHORTEST, LONGEST = 160, 1024  # sides of images, in pixels, that are seen as they are
LEAST_FINDING = 6.0  # side in pixels that a finding keeps when its image is shrunk
SIDES = (64, 96, 128, 160, 192, 224, 256)  # of windows
STEPS = 6000  # of the optimizer, of windows of 256 × 256 pixels
FEWEST, MOST = 40, 400  # epochs
EMPTY, FOUND = 0.25, 2 / 3
THIN = 0.5  # share of the findings of a class


def choose(
    recipe: SegmentRecipe,
    properties: Mapping[str, Any],
    classes: Sequence[str],
    direction: Callable[[], Direction | None] = lambda: None,
) -> Settled:
    """properties: what SegmentSource.properties() has of the training split. direction: how its images lie; asked where
    it matters, as images are opened for it.
    """
    images = properties["images"]
    changes: dict[str, Any] = {}
    reasons: list[str] = []
    side, finding = min(properties["height"], properties["width"]), properties["side"][1]
    if recipe.zoom is None:
        changes["zoom"] = zoom_for(side, finding)
        reasons.append(f"zoom {changes['zoom']:g}: images of {side:.0f} pixels, findings of {finding:.0f}")
    zoom = recipe.zoom or changes["zoom"]
    if recipe.size is None:
        seen = side * zoom
        changes["size"] = max([one for one in SIDES if one <= seen], default=SIDES[0])
        reasons.append(f"size {changes['size']}: windows as large as images of {seen:.0f} pixels allow, at most 256")
    empty = float(properties["empty"])
    if recipe.found is None:
        changes["found"] = max(FOUND, 1 - empty) if empty < 1 else 0.0
        reasons.append(f"found {changes['found']:.2f}: {empty:.0%} of the images are empty")
    if recipe.paste is None:
        changes["paste"] = 0.5 if EMPTY <= empty < 1 else 0.0
        reasons.append(f"paste {changes['paste']:g}: {empty:.0%} of the images are empty")
    if recipe.skeleton is None:
        thin = [classes[place] for place in thin_classes(properties)]
        changes["skeleton"] = 1.0 if thin else 0.0
        why = f"most findings are thin of {', '.join(thin)}" if thin else "of no class most findings are thin"
        reasons.append(f"skeleton {changes['skeleton']:g}: {why}")
    if recipe.augment is None:
        changes["augment"], why = augmentation_for(direction())
        reasons.append(f"augment {changes['augment']}: {why}")
    if recipe.epochs is None:
        epochs = round(STEPS * 8 / recipe.batch / max(images / recipe.batch, 1))
        changes["epochs"] = min(max(epochs, FEWEST), MOST)
        reasons.append(f"epochs {changes['epochs']}: {images} images to learn from")
    return Settled(recipe.changed(**changes), tuple(reasons))


def augmentation_for(direction: Direction | None) -> tuple[str, str]:
    if direction is None:
        return "upright", "too few images, or groups of them, to see whether they have an up and a down"
    if direction.has_up:
        return "upright", f"{direction.images} images have an up and down in common"
    if direction.has_grain:
        return "grain", f"rows and columns of {direction.images} images differ, up and down do not"
    return "free", f"{direction.images} images have no direction in common"


def thin_classes(properties: Mapping[str, Any]) -> list[int]:
    """The places of the classes of which at least half of the findings are thin."""
    return [place for place, share in enumerate(properties["thins"]) if share >= THIN]


def zoom_for(side: float, finding: float) -> float:
    """The largest zoom that leaves the shorter side at most LONGEST, unless findings get too small; small images are
    enlarged.
    """
    zoom = 1.0
    while side * zoom < SHORTEST and zoom < max(ZOOMS):
        zoom *= 2
    while side * zoom > LONGEST and finding * zoom / 2 >= LEAST_FINDING and zoom > min(ZOOMS):
        zoom /= 2
    return zoom
