"""A recipe of translation: every option of a training run on pairs of sentences."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from foveal.data.parallel import MAX_LENGTH
from foveal.file_names import expanded
from foveal.options import option
from foveal.tasks.translate.card import OLD_CONFIG, OLD_RECIPE
from foveal.training.recipe import Recipe, located

DATA = "the data: a folder with train, val and test, two files a.en,a.de, a .tsv or .jsonl file, or grammar"


@dataclass(frozen=True)
class TranslateRecipe(Recipe):
    renamed: ClassVar[dict[str, str]] = OLD_RECIPE
    renamed_config: ClassVar[dict[str, dict[str, str]]] = {"transformer": OLD_CONFIG, "rnn": OLD_CONFIG}
    before: ClassVar[dict[str, Any]] = {"cuda_graphs": False}

    data: str = option("grammar", DATA, metavar="PATH")
    model: str = option(
        "transformer-tiny",
        "the model: a preset such as transformer-base or rnn-attention, or a trained one to continue",
        metavar="NAME",
    )
    init_from: str | None = option(
        None,
        "a trained model to continue with: its weights and its vocabulary; none: random weights, and a vocabulary of "
        "the data",
        metavar="MODEL",
    )
    lr: float = option(0.0, "largest learning rate; 0: the paper's, (width · warmup)^−½", least=0)
    label_smoothing: float = option(0.1, "label smoothing ε", least=0, below=1)
    average: int = option(5, "keep the mean of the weights of the last N epochs; 1: of one epoch", least=1)
    source: str | None = option(
        None, "the language to translate from; none: the first that the data's names say", metavar="LANGUAGE"
    )
    target: str | None = option(
        None, "the language to translate into; none: the second that the data's names say", metavar="LANGUAGE"
    )
    bad: str = option("drop", "what to do with bad pairs: empty, too long, not UTF-8", ("drop", "refuse"))
    max_length: int = option(MAX_LENGTH, "most words of a training sentence; pairs with a longer one are bad", least=1)
    subwords: str = option("bpe", "the algorithm that learns subwords", ("bpe", "unigram"))
    vocab_size: int = option(8000, "largest size of the vocabulary in subwords", least=260)
    joint: bool = option(True, "one vocabulary for both languages")
    lowercase: bool = option(False, "lowercase all sentences")
    tokens: int = option(4096, "tokens per batch, padding included: of the longer side", least=16)
    warmup: int = option(
        4000, "steps in which the learning rate rises; then it falls with the root of the steps", least=1
    )
    r_drop: float = option(0.0, "weight of R-Drop: two passes with different dropout must agree; 0: one pass", least=0)
    bleu_every: int = option(0, "translate the validation split every N epochs; 0: at the end only", least=0)
    beam: int = option(4, "beam size of the evaluation at the end", least=1)
    length_penalty: float = option(0.6, "length penalty of the evaluation at the end", least=0)

    def from_anywhere(self) -> Self:
        """With absolute paths: what a run keeps of its recipe holds in another folder, too."""
        return super().from_anywhere().changed(data=_located(self.data))


def _located(data: str) -> str:
    """The absolute path of a folder, of a file or of two files; a name of foveal's own as it is."""
    return located(data) if expanded(data).exists() else ",".join(map(located, data.split(",")))
