# Written by `make stubs`.
from foveal.tasks import ablation as ablation
from foveal.tasks import ablation_time as ablation_time
from foveal.tasks import classify as classify
from foveal.tasks import evaluated_on as evaluated_on
from foveal.tasks import hub as hub
from foveal.tasks import load as load
from foveal.tasks import model as model
from foveal.tasks import over_seeds as over_seeds
from foveal.tasks import rows as rows
from foveal.tasks import segment as segment
from foveal.tasks import stages as stages
from foveal.tasks import task as task
from foveal.tasks import train as train
from foveal.tasks import translate as translate

__all__ = [
    "ablation",
    "ablation_time",
    "classify",
    "evaluated_on",
    "hub",
    "load",
    "model",
    "over_seeds",
    "rows",
    "segment",
    "stages",
    "task",
    "train",
    "translate",
]
