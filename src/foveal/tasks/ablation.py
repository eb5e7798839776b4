"""An ablation: variants of one recipe, trained alike, and a table of what each part is worth."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.report.table import Table

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
