"""Translation as a task: what its recipe, training, predictor, evaluation, explanation and export are.

Nothing heavy is imported until it is needed.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.errors import expect
from foveal.options import Options
from foveal.tasks.task import Evaluation, Explanation, Exported, LabelledBatches, Predictor, Task
from foveal.tasks.translate.card import TranslateCard
from foveal.tasks.translate.options import STAGES

if TYPE_CHECKING:
    from torch import nn

    from foveal.data.parallel import Parallel
    from foveal.progress import Progress
    from foveal.tasks.ablation import Ablation
    from foveal.tasks.model import Model
    from foveal.tasks.translate.recipe import TranslateRecipe
    from foveal.tasks.translate.training import TranslateTraining
    from foveal.training.harness import Machine


class TranslateTask(Task):
    name = "translate"
    does = "translates"
    kind = "tokens to tokens"
    commands = {  # noqa: RUF012 — nobody writes to it
        "translate": ("foveal.tasks.translate.command", "translate lines as they come, one per line")
    }
    benches = {"translate": "foveal.tasks.translate.bench"}  # noqa: RUF012

    @property
    def card(self) -> type[TranslateCard]:
        return TranslateCard

    @property
    def recipe(self) -> "type[TranslateRecipe]":
        from foveal.tasks.translate.recipe import TranslateRecipe

        return TranslateRecipe

    def default_recipe(self, flags: Mapping[str, Any]) -> str | None:
        return "grammar"

    def read(self, recipe: Any) -> "Parallel":
        from foveal.tasks.translate.training import read_data

        return read_data(recipe)

    def training(
        self, recipe: Any, data: Any, folder: Path, machine: "Machine", progress: "Progress", fresh: bool
    ) -> "TranslateTraining":
        from foveal.tasks.translate.training import TranslateTraining

        needless = "none for a translator: its sentences lie in memory"
        expect(not machine.workers, "--workers", needless, machine.workers, "leave it out")
        return TranslateTraining(recipe, data)

    def describe_result(self, result: dict[str, Any], folder: Path) -> list[str]:
        from foveal.tasks.translate.result import describe_result

        return describe_result(result, folder)

    def summarise(self, folders: Sequence[Path], out: Path) -> str:
        from foveal.tasks.translate.result import summarise

        return summarise(folders, out)

    def options(self, stage: str) -> type[Options]:
        return STAGES.get(stage, Options)

    def new_card(self, name: str, network: "nn.Module") -> TranslateCard:
        from foveal.models.store import describe

        family, config = describe(network)
        return TranslateCard(model=name, family=family, config=config)

    def predictor(self, model: "Model", options: Any) -> Predictor:
        from foveal.tasks.translate.predict import TranslatePredictor

        return TranslatePredictor(_engine(model, options.precision), _card(model), options, model.name)

    def evaluate(
        self, model: "Model", options: Any, progress: "Progress", others: "Sequence[Model]" = ()
    ) -> Evaluation:
        from foveal.tasks.translate.evaluate import evaluate

        return evaluate([model, *others], options, progress)

    def explain(self, model: "Model", subject: Any, options: Any, progress: "Progress") -> Explanation:
        expect(
            not model.is_exported,
            model.name,
            "a run's folder or a .safetensors file to explain",
            "an exported file, which translates only",
        )
        from foveal.tasks.translate.explain import explain

        return explain(model, subject)

    def export(self, model: "Model", path: Path, options: Any) -> Exported:
        from foveal.tasks.translate.export import export

        return export(model, path, options)

    def graph(self, model: "Model") -> bytes:
        from foveal.tasks.translate.graph import export_translator

        return export_translator(model.network, _card(model))

    def timed(self, model: "Model", session: Any) -> "Callable[[int], Callable[[], Any]]":
        from foveal.tasks.translate.onnx_engine import OnnxEngine, random_decoding

        return random_decoding(OnnxEngine(session, model.card.config, model.name))

    def labelled_batches(self, model: "Model", count: int) -> LabelledBatches:
        from foveal.tasks.translate.batches import labelled_batches

        return labelled_batches(model, count)

    def ablations(self) -> "Mapping[str, Ablation]":
        from foveal.tasks.translate.ablate import TransformerAblation

        return {"transformer": TransformerAblation()}


def _card(model: "Model") -> TranslateCard:
    assert isinstance(model.card, TranslateCard)
    return model.card


def _engine(model: "Model", precision: str) -> Any:
    """onnxruntime of an exported file, torch of any other: only then is torch imported."""
    if model.is_exported:
        from foveal.tasks.translate.onnx_engine import OnnxEngine

        expect(precision == "fp32", "--precision", "none beside an exported file, which has its own", precision)
        return OnnxEngine(model.exported.session, model.card.config, model.name)
    from foveal.deploy.twins.fast_decoder import engine_of

    return engine_of(model.network, precision)


TASK = TranslateTask()
