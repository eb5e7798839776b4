"""What only translators take in each stage: how to search, what to evaluate on, which file to export."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from foveal.errors import expect
from foveal.options import Options, option
from foveal.runtime.decode.limits import LARGEST_BEAM, MAX_SOURCE, STEEPEST

if TYPE_CHECKING:
    from foveal.runtime.decode.search import Search

PRECISIONS = ("fp32", "int8")
RUNTIMES = ("onnx", "ctranslate2")
BEAM, LENGTH_PENALTY = 4, 0.6
# their defaults: they mean nothing unless tokens are drawn
SAMPLING = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 0}


@dataclass(frozen=True)
class PredictOptions(Options):
    beam: int = option(BEAM, "beam size; 1: greedy search", least=1, below=LARGEST_BEAM + 1)
    length_penalty: float = option(LENGTH_PENALTY, "length penalty α; 0 prefers short sentences", least=-STEEPEST)
    n_best: int = option(
        1, "translations per line, each with its line number, score and text, separated by tabs", least=1
    )
    min_length: int = option(0, "tokens before a translation may end", least=0)
    max_length: int | None = option(None, "most tokens of a translation; by default twice the source and ten", least=1)
    no_repeat: int = option(0, "no run of N tokens comes twice; 0: any may", least=0)
    sample: bool = option(False, "draw tokens at random instead of searching for the likeliest")
    temperature: float = option(1.0, "temperature of the sampling; below 1 more certain", least=0)
    top_k: int = option(0, "sample from the K likeliest tokens; 0: from all", least=0)
    top_p: float = option(1.0, "sample from the likeliest tokens whose probabilities add up to this", least=0)
    seed: int = option(0, "seed of the sampling", least=0)
    batch: int = option(32, "lines that are translated together; 1: each as soon as it comes", least=1)
    max_source_length: int = option(
        MAX_SOURCE, "most tokens of a line, its end included; of a longer one the first are read", least=2
    )
    precision: str = option(
        "fp32", "arithmetic with torch; int8 is rounded, and on a CPU faster for large models", PRECISIONS
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, default in SAMPLING.items():
            given, flag = getattr(self, name), f"--{name.replace('_', '-')}"
            expect(
                self.sample or given == default,
                flag,
                "--sample beside it",
                "a search for the likeliest",
                "add --sample",
            )
        expect(
            not self.sample or self.beam in (1, BEAM), "--beam", "none beside --sample, which has no beam", self.beam
        )
        self.search()  # refuses what no search can be

    def search(self, max_positions: int | None = None) -> "Search":
        """max_positions: that the model has learned."""
        names = ("beam", "length_penalty", "n_best", "min_length", "max_length", "no_repeat", "sample", *SAMPLING)
        from foveal.runtime.decode.search import Search

        return Search(**{name: getattr(self, name) for name in names}, max_positions=max_positions)


@dataclass(frozen=True)
class EvaluateOptions(Options):
    data: str | None = option(None, "the data to evaluate on; by default what the model was trained on", metavar="PATH")
    split: str = option(
        "test", "the split to evaluate on: train, val, test, or a further one of the data", metavar="SPLIT"
    )
    resamples: int = option(1000, "resamples of the bootstrap for the 95 % intervals; 0: no intervals", least=0)
    batch: int = option(64, "sentences that are translated together", least=1)
    beam: int | None = option(None, "beam size; by default the recipe's", least=1, below=LARGEST_BEAM + 1)
    length_penalty: float | None = option(None, "length penalty α; by default the recipe's", least=-STEEPEST)


@dataclass(frozen=True)
class ExplainOptions(Options):
    """None: the sentence and its search are all there is."""


@dataclass(frozen=True)
class ExportOptions(Options):
    precision: str = option("fp32", "precision of the exported weights", PRECISIONS)
    to: str = option("onnx", "the runtime to export for: one .onnx file, or a folder for CTranslate2", RUNTIMES)


@dataclass(frozen=True)
class BenchOptions(Options):
    beam: str = option("1,4", "widths of the beam", metavar="A,B")
    tokens: int = option(20, "steps of a sentence, its end included", least=2)


STAGES: dict[str, type[Options]] = {
    "predict": PredictOptions,
    "evaluate": EvaluateOptions,
    "explain": ExplainOptions,
    "export": ExportOptions,
    "bench": BenchOptions,
}
