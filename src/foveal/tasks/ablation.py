"""An ablation: variants of one recipe, trained alike, and a table of what each part is worth."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.errors import FovealError, expect
from foveal.report.table import Table
from foveal.runtime.packaged import IMAGENET

if TYPE_CHECKING:
    from foveal.training.sweep import PlannedRun

# table → name of a variant → its recipe; the first one is what the others are compared with
Variants = Mapping[str, Mapping[str, Any]]
Plans = Mapping[tuple[str, str], Sequence["PlannedRun"]]  # (table, variant) → its runs over folds and seeds


class Ablation(ABC):
    task: str  # whose recipe it varies
    diverging: bool = False  # whether a run whose numbers become NaN is an outcome, and not a failure

    @property
    @abstractmethod
    def tables(self) -> tuple[str, ...]:
        """What --only may name."""

    @abstractmethod
    def variants(self, recipe: Any, only: Sequence[str] | None) -> dict[str, dict[str, Any]]:
        """All recipes that are trained; an error where one cannot be, before anything is."""

    def distinct(self, plans: Plans, data: Any) -> Plans:
        """Without the variants that these data make the same as the first one."""
        return plans

    def further(self, plans: Plans, place: "Any") -> dict[tuple[str, str], list["PlannedRun"]]:
        """Runs that need the first ones: made when these have ended. place: variant → its folder."""
        return {}

    @abstractmethod
    def results(self, variants: Variants, plans: Plans, data: Any) -> list[Table]:
        """A table for each group of variants."""

    @abstractmethod
    def caption(self, recipe: Any, data: Any, seeds: int) -> str:
        """What the figures are, on which split, over how many seeds."""

    def check(self, data: Any) -> None:  # noqa: B027 — most need none
        """Raise a FovealError unless variants can be compared on this data."""

    def folder(self, name: str, data: Any) -> Path:
        return Path(f"runs/ablate-{name}-{data.name.replace(':', '-')}")


def same_training(one: Any, other: Any) -> bool:
    """Whether two recipes train the same model in the same way, however they write it."""
    from foveal.models.zoo import config_of

    configs = [config_of(recipe.model, **recipe.config) for recipe in (one, other)]
    return configs[0] == configs[1] and bool(one.changed(config={}) == other.changed(config={}))


def expect_buildable(variants: Variants, build: Callable[[Any], object]) -> None:
    """Raise a FovealError for a variant that cannot be built, before any is trained."""
    for table, recipes in variants.items():
        for name, recipe in recipes.items():
            try:
                build(recipe)
            except FovealError as error:
                raise FovealError(f"the variant {name} of {table}: {error}; name other tables with --only") from None


def peers(
    recipe: Any, names: Sequence[str], only: Sequence[str] | None, peer: Callable[[Any, str], Any]
) -> dict[str, Any]:
    """Line of the table → its recipe. names: NAME or NAME:imagenet, of which the first is what others are compared
    with; peer: the recipe of NAME, from scratch.
    """
    base, do = names[0], "leave it out: where there are weights of ImageNet, the table has a line for them"
    expect(recipe.model == base, "--model", f"{base}, which the others are compared with", recipe.model)
    expect(recipe.init_from is None, "--init-from", "none, for models from scratch", recipe.init_from, do)
    built: dict[str, Any] = {}
    for name in names:
        if only is None or name in only or name == base:
            model, _, weights = name.partition(":")
            line = f"{model}, ImageNet" if weights == IMAGENET else name
            built[line] = peer(recipe, model).changed(init_from=weights or None)
    return built
