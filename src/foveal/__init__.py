"""foveal: attention models that are right, fast and small enough to ship.

    run = foveal.train("classify", data="photos", epochs=60)
    # a run; or a model file, an exported .onnx, a preset, weights that come with foveal, hf://OWNER/NAME
    model = foveal.load("runs/photos-icam-31k")
    for found in model.predict("photos/"): ...

Nothing is loaded before it is touched, so that `import foveal` takes milliseconds and needs no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foveal import (
        core,
        data,
        deploy,
        explain,
        layers,
        losses,
        mask,
        metrics,
        models,
        position,
        report,
        runtime,
        score,
        tasks,
        training,
        vision,
    )
    from foveal.core.attend import attend, kernel, weigh, which
    from foveal.core.watch import watch
    from foveal.deploy.prune_module import prune
    from foveal.errors import FovealError
    from foveal.explain.check import check
    from foveal.models.zoo import create
    from foveal.tasks.classify.predict import Prediction
    from foveal.tasks.load import list_models, load
    from foveal.tasks.model import Model
    from foveal.tasks.segment.predict import Segmentation
    from foveal.tasks.stages import evaluate, export, predict, save
    from foveal.tasks.task import Result
    from foveal.tasks.train import Run, train
    from foveal.tasks.translate.predict import Translation

__version__ = "0.1.0"

_PLACES = {  # public name → where it lives
    "FovealError": "foveal.errors:FovealError",
    "Model": "foveal.tasks.model:Model",
    "Prediction": "foveal.tasks.classify.predict:Prediction",
    "Result": "foveal.tasks.task:Result",
    "Run": "foveal.tasks.train:Run",
    "Segmentation": "foveal.tasks.segment.predict:Segmentation",
    "Translation": "foveal.tasks.translate.predict:Translation",
    "attend": "foveal.core.attend:attend",
    "check": "foveal.explain.check:check",
    "create": "foveal.models.zoo:create",
    "evaluate": "foveal.tasks.stages:evaluate",
    "export": "foveal.tasks.stages:export",
    "kernel": "foveal.core.attend:kernel",
    "list_models": "foveal.tasks.load:list_models",
    "load": "foveal.tasks.load:load",
    "predict": "foveal.tasks.stages:predict",
    "prune": "foveal.deploy.prune_module:prune",
    "save": "foveal.tasks.stages:save",
    "train": "foveal.tasks.train:train",
    "watch": "foveal.core.watch:watch",
    "weigh": "foveal.core.attend:weigh",
    "which": "foveal.core.attend:which",
}
_ELSEWHERE = {  # what people look for here → where it is
    "create_model": "foveal.create(name)",
    "explain_image": "foveal.load(model).explain(image)",
    "from_pretrained": "foveal.load(folder, file or hf://OWNER/NAME)",
    "translate": "foveal.load(model).translate(lines)",
}
_ROOMS = [
    "core",
    "data",
    "deploy",
    "explain",
    "layers",
    "losses",
    "mask",
    "metrics",
    "models",
    "position",
    "report",
    "runtime",
    "score",
    "tasks",
    "training",
    "vision",
]

__all__ = [
    "FovealError",
    "Model",
    "Prediction",
    "Result",
    "Run",
    "Segmentation",
    "Translation",
    "__version__",
    "attend",
    "check",
    "core",
    "create",
    "data",
    "deploy",
    "evaluate",
    "explain",
    "export",
    "kernel",
    "layers",
    "list_models",
    "load",
    "losses",
    "mask",
    "metrics",
    "models",
    "position",
    "predict",
    "prune",
    "report",
    "runtime",
    "save",
    "score",
    "tasks",
    "train",
    "training",
    "vision",
    "watch",
    "weigh",
    "which",
]


if not TYPE_CHECKING:  # a type checker that saw it would take any name

    def __getattr__(name: str) -> Any:
        from foveal.errors import naming_extras

        with naming_extras():
            if name in _ROOMS:
                return importlib.import_module(f"foveal.{name}")
            if name in _PLACES:
                place, _, attribute = _PLACES[name].partition(":")
                value = getattr(importlib.import_module(place), attribute)
                globals()[name] = value
                return value
        raise AttributeError(_unknown(name))


def _unknown(name: str) -> str:
    if name in _ELSEWHERE:
        return f"module 'foveal' has no attribute {name!r}: {_ELSEWHERE[name]}"
    import difflib

    near = [] if name.startswith("_") else difflib.get_close_matches(name, __all__, n=1)
    return f"module 'foveal' has no attribute {name!r}" + (f"; the nearest is {near[0]!r}" if near else "")


def __dir__() -> list[str]:
    return sorted(__all__)
