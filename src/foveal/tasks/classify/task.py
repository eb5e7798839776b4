"""The task `classify`: which classes an image shows, one or several."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.options import Options
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.task import Evaluation, Explanation, Exported, LabelledBatches, Predictor, Task

if TYPE_CHECKING:
    from torch import nn

    from foveal.data.source import Source
    from foveal.progress import Progress
    from foveal.tasks.ablation import Ablation
    from foveal.tasks.classify.recipe import ClassifyRecipe
    from foveal.tasks.model import Model
    from foveal.training.harness import Machine, Training


class ClassifyTask(Task):
    name = "classify"
    does = "classifies"
    kind = "images to logits"

    @property
    def card(self) -> type[ClassifyCard]:
        return ClassifyCard

    @property
    def recipe(self) -> "type[ClassifyRecipe]":
        from foveal.tasks.classify.recipe import ClassifyRecipe

        return ClassifyRecipe

    def read(self, recipe: "ClassifyRecipe") -> "Source":
        from foveal.tasks.classify.reading import read_for

        return read_for(recipe)

    def training(
        self,
        recipe: "ClassifyRecipe",
        data: "Source",
        folder: Path,
        machine: "Machine",
        progress: "Progress",
        fresh: bool,
    ) -> "Training":
        from foveal.tasks.classify.training import ClassifyTraining

        return ClassifyTraining(recipe, data, folder, machine, progress, fresh)

    def rehearsal(
        self,
        recipe: "ClassifyRecipe",
        data: "Source",
        folder: Path,
        machine: "Machine",
        progress: "Progress",
        fresh: bool,
    ) -> "Training":
        from foveal.tasks.classify.training import ClassifyTraining

        short = recipe.changed(views=min(recipe.views, 1))  # its second epoch has the views of the first
        training = ClassifyTraining(short, data, folder, machine, progress, fresh, rehearsed=True)
        training.novel_epochs = recipe.views or None
        training.module.plan_memory(recipe.views * len(training.data.splits.train))
        return training

    def describe_result(self, result: dict[str, Any], folder: Path) -> list[str]:
        from foveal.tasks.classify.finish import describe_result

        return describe_result(result, folder)

    def summarise(self, folders: Sequence[Path], out: Path) -> str:
        from foveal.tasks.classify.summary import summarise

        return summarise(folders, out)

    def options(self, stage: str) -> type[Options]:
        from foveal.tasks.classify import options

        stages: dict[str, type[Options]] = {
            "predict": options.PredictOptions,
            "evaluate": options.EvaluateOptions,
            "explain": options.ExplainOptions,
            "export": options.ExportOptions,
        }
        return stages.get(stage, Options)

    def new_card(self, name: str, network: "nn.Module") -> ClassifyCard:
        from foveal.models.store import describe, normalisation

        family, config = describe(network)
        mean, std = normalisation(network)
        classes = tuple(f"class {number}" for number in range(config["classes"]))
        note = "random weights: nobody trained it"
        facts = {"size": config["image"], "mean": mean, "std": std, "note": note}
        return ClassifyCard(model=name, family=family, config=config, classes=classes, **facts)

    def predictor(self, model: "Model", options: Any) -> Predictor:
        from foveal.tasks.classify.classifier import classifier_of

        return classifier_of(model, options.batch, options.threshold)

    def evaluate(
        self, model: "Model", options: Any, progress: "Progress", others: "Sequence[Model]" = ()
    ) -> Evaluation:
        from foveal.tasks.classify.evaluate import evaluate

        return evaluate(model, options, progress, others)

    def explain(self, model: "Model", subject: Any, options: Any, progress: "Progress") -> Explanation:
        from foveal.tasks.classify.explain import explain

        return explain(model, subject, options, progress)

    def export(self, model: "Model", path: Path, options: Any) -> Exported:
        from foveal.tasks.classify.export import export

        return export(model, path, options)

    def graph(self, model: "Model") -> bytes:
        from foveal.tasks.classify.graph import export_onnx

        return export_onnx(model.network, model.card)  # type: ignore[arg-type]

    def labelled_batches(self, model: "Model", count: int) -> LabelledBatches:
        from foveal.tasks.classify.batches import labelled_batches

        return labelled_batches(model, count)

    def ablations(self) -> "Mapping[str, Ablation]":
        from foveal.tasks.classify.ablate import ABLATIONS

        return ABLATIONS


TASK = ClassifyTask()
