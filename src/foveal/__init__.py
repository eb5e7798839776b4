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
    "Translation": "foveal.tasks.translate.predict:Translation",
    "attend": "foveal.core.attend:attend",
    "check": "foveal.explain.check:check",
    "create": "foveal.models.zoo:create",
    "kernel": "foveal.core.attend:kernel",
    "list_models": "foveal.tasks.load:list_models",
    "load": "foveal.tasks.load:load",
    "prune": "foveal.deploy.prune_module:prune",
    "train": "foveal.tasks.train:train",
    "watch": "foveal.core.watch:watch",
    "weigh": "foveal.core.attend:weigh",
    "which": "foveal.core.attend:which",
}
_ELSEWHERE = {  # what people look for here → where it is
    "create_model": "foveal.create(name)",
    "evaluate": "foveal.load(model).evaluate(data=…)",
    "explain_image": "foveal.load(model).explain(image)",
    "export": "foveal.load(model).export(path)",
    "from_pretrained": "foveal.load(folder, file or hf://OWNER/NAME)",
    "predict": "foveal.load(model).predict(images)",
    "save": "foveal.load(model).save_pretrained(folder)",
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
    "Translation",
    "__version__",
    "attend",
    "check",
    "core",
    "create",
    "data",
    "explain",
    "kernel",
    "layers",
    "list_models",
    "load",
    "losses",
    "mask",
    "metrics",
    "models",
    "position",
    "prune",
    "report",
    "runtime",
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
