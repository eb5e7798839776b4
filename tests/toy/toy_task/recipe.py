"""What training a gauge takes beside what every training does. No torch."""

from dataclasses import dataclass

from foveal.options import option
from foveal.training.recipe import Recipe


@dataclass(frozen=True)
class GaugeRecipe(Recipe):
    model: str = option("gauge-tiny", "the model: a preset", metavar="NAME")
    batch: int = option(20, "images per step", least=1)
    unit: str = option("", "the unit of the value, for reports")
