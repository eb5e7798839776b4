"""The task `segment`: which class each pixel of an image shows."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.options import Options
from foveal.tasks.segment.card import BACKGROUND, SegmentCard
from foveal.tasks.task import Evaluation, Explanation, Exported, Predictor, Settled, Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from foveal.data.segments import SegmentSource
    from foveal.progress import Progress
    from foveal.tasks.ablation import Ablation
    from foveal.tasks.model import Model
    from foveal.tasks.segment.recipe import SegmentRecipe
    from foveal.training.harness import Machine, Training


class SegmentTask(Task):
    name = "segment"
    does = "segments"
    kind = "images to maps"

    @property
    def card(self) -> type[SegmentCard]:
        return SegmentCard

    @property
    def recipe(self) -> "type[SegmentRecipe]":
        from foveal.tasks.segment.recipe import SegmentRecipe

        return SegmentRecipe

    def read(self, recipe: "SegmentRecipe") -> "SegmentSource":
        from foveal.tasks.segment.reading import read_for

        return read_for(recipe)

    def settled(self, recipe: "SegmentRecipe", data: "SegmentSource") -> Settled:
        from foveal.data.direction import direction
        from foveal.data.division import splits_of
        from foveal.tasks.segment.choose import choose

        train = splits_of(data, recipe.fold).train
        return choose(recipe, data.properties(train), data.classes, lambda: direction(data, train))

    def training(
        self,
        recipe: "SegmentRecipe",
        data: "SegmentSource",
        folder: Path,
        machine: "Machine",
        progress: "Progress",
        fresh: bool,
    ) -> "Training":
        from foveal.tasks.segment.training import SegmentTraining

        return SegmentTraining(recipe, data, folder, machine, progress, fresh)

    def rehearsal(
        self,
        recipe: "SegmentRecipe",
        data: "SegmentSource",
        folder: Path,
        machine: "Machine",
        progress: "Progress",
        fresh: bool,
    ) -> "Training":
        from foveal.tasks.segment.training import SegmentTraining

        return SegmentTraining(recipe, data, folder, machine, progress, fresh, rehearsed=True)

    def describe_result(self, result: dict[str, Any], folder: Path) -> list[str]:
        from foveal.tasks.segment.training import describe_result

        return describe_result(result, folder)

    def summarise(self, folders: Sequence[Path], out: Path) -> str:
        from foveal.tasks.segment.summary import summarise

        return summarise(folders, out)

    def options(self, stage: str) -> type[Options]:
        from foveal.tasks.segment import options

        stages: dict[str, type[Options]] = {
            "predict": options.PredictOptions,
            "evaluate": options.EvaluateOptions,
            "explain": options.ExplainOptions,
            "export": options.ExportOptions,
        }
        return stages.get(stage, Options)

    def new_card(self, name: str, network: "nn.Module") -> SegmentCard:
        from foveal.models.store import describe, normalisation

        family, config = describe(network)
        mean, std = normalisation(network)
        classes = (BACKGROUND, *(f"class {number}" for number in range(1, config["classes"])))
        note = "random weights: nobody trained it"
        facts: dict[str, Any] = {"size": config["image"], "multiple": network.multiple, "mean": mean, "std": std}
        return SegmentCard(model=name, family=family, config=config, classes=classes, note=note, **facts)

    def predictor(self, model: "Model", options: Any) -> Predictor:
        from foveal.tasks.segment.segmenter import segmenter_of

        return segmenter_of(model, options)

    def evaluate(
        self, model: "Model", options: Any, progress: "Progress", others: "Sequence[Model]" = ()
    ) -> Evaluation:
        from foveal.tasks.segment.evaluate import evaluate

        return evaluate(model, options, progress, others)

    def explain(self, model: "Model", subject: Any, options: Any, progress: "Progress") -> Explanation:
        from foveal.tasks.segment.explain import explain

        return explain(model, subject, options, progress)

    def export(self, model: "Model", path: Path, options: Any) -> Exported:
        from foveal.tasks.segment.export import export

        return export(model, path, options)

    def graph(self, model: "Model") -> bytes:
        from foveal.tasks.segment.export import export_onnx

        return export_onnx(model.network, model.card)  # type: ignore[arg-type]

    def in_tiles(self, model: "Model", tile: int | None) -> "Callable[[NDArray[np.uint8]], Any]":
        from foveal.tasks.segment.options import PredictOptions
        from foveal.tasks.segment.segmenter import segmenter_of

        usual = PredictOptions()
        options = usual if tile is None else PredictOptions(tile=tile, overlap=min(usual.overlap, tile // 2))
        return segmenter_of(model, options).answer

    def ablations(self) -> "Mapping[str, Ablation]":
        from foveal.tasks.segment.ablate import ABLATIONS

        return ABLATIONS


TASK = SegmentTask()
