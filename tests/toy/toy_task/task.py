"""The task `gauge`: read the value that a disc in an image shows.

All that foveal's stages need; importing it costs nothing.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.tasks.task import Evaluation, Explanation, Exported, Predictor, Task
from toy_task.card import GaugeCard

if TYPE_CHECKING:
    from torch import nn

    from foveal.options import Options
    from foveal.progress import Progress
    from foveal.tasks.model import Model
    from foveal.training.harness import Data, Machine, Training
    from foveal.training.recipe import Recipe


class GaugeTask(Task):
    name, does, kind = "gauge", "reads a value off an image", "images to values"
    card = GaugeCard

    @property
    def recipe(self) -> "type[Recipe]":
        from toy_task.recipe import GaugeRecipe

        return GaugeRecipe

    def read(self, recipe: Any) -> "Data":
        from toy_task.data import read

        return read(recipe.data)

    def training(
        self, recipe: Any, data: Any, folder: Path, machine: "Machine", progress: "Progress", fresh: bool
    ) -> "Training":
        from toy_task.module import GaugeTraining

        return GaugeTraining(recipe, data)

    def describe_result(self, result: dict[str, Any], folder: Path) -> list[str]:
        return [
            f"mean squared error {result['val_loss']:.2g} at epoch {result['epoch']}",
            f"next: foveal evaluate {folder}",
        ]

    def summarise(self, folders: Sequence[Path], out: Path) -> str:
        import statistics

        from foveal.atomic import write_atomic
        from foveal.training.run_folder import read_result

        errors = [read_result(folder)["val_loss"] for folder in folders]
        text = f"| runs | mean squared error |\n|---|---|\n| {len(errors)} | {statistics.mean(errors):.2g} |\n"
        write_atomic(out / "summary.md", text.encode())
        return text

    def options(self, stage: str) -> "type[Options]":
        if stage == "predict":
            from toy_task.predict import PredictOptions as Kind
        elif stage == "evaluate":
            from toy_task.evaluate import EvaluateOptions as Kind
        elif stage == "explain":
            from toy_task.explain import ExplainOptions as Kind
        elif stage == "export":
            from toy_task.export import ExportOptions as Kind
        else:
            return super().options(stage)
        return Kind

    def new_card(self, name: str, network: "nn.Module") -> GaugeCard:
        from foveal.models.store import describe

        family, config = describe(network)
        return GaugeCard(task=self.name, model=name, family=family, config=config, size=config["image"])

    def predictor(self, model: "Model", options: Any) -> Predictor:
        from toy_task.predict import GaugePredictor

        return GaugePredictor(model, options)

    def evaluate(
        self, model: "Model", options: Any, progress: "Progress", others: "Sequence[Model]" = ()
    ) -> Evaluation:
        from toy_task.evaluate import evaluate

        return evaluate([model, *others], options, progress)

    def explain(self, model: "Model", subject: Any, options: Any, progress: "Progress") -> Explanation:
        from toy_task.explain import explain

        return explain(model, subject, options)

    def export(self, model: "Model", path: Path, options: Any) -> Exported:
        from toy_task.export import export

        return export(model, path, options)

    def graph(self, model: "Model") -> bytes:
        from toy_task.export import graph

        return graph(model)


TASK = GaugeTask()
