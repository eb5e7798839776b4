"""A recipe of translation: every setting of a training run on pairs of sentences."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from foveal.data.read import located
from foveal.errors import expect
from foveal.options import PRECISIONS, Options, option


@dataclass(frozen=True)
class TranslateRecipe(Options):
    task: ClassVar[str] = "translate"
    before: ClassVar[dict[str, Any]] = {"recorded": False}

    data: str = option("grammar", "a folder with train, val and test, two files a.en,a.de, a TSV or JSONL file, or grammar")
    source: str | None = option(None, "the language to translate from, where the data's names do not say it")
    target: str | None = option(None, "the language to translate into")
    bad: str = option("drop", "what to do with pairs that cannot be right: empty, too long, not UTF-8", ("drop", "refuse"))
    longest: int = option(250, "words of a sentence to learn from; longer ones are bad", least=1)
    pieces: str = option("bpe", "how words are cut into pieces", ("bpe", "unigram"))
    size: int = option(8000, "pieces of the vocabulary, at most", least=260)
    joint: bool = option(True, "one vocabulary for both languages")
    lowercase: bool = option(False, "all sentences in small letters")
    model: str = option("transformer-tiny", "a preset: transformer-tiny, -small, -base, -big, rnn or rnn-attention")
    settings: dict[str, Any] = option({}, "fields of the model's config that differ, as YAML: '{norm: pre}'")  # noqa: RUF009 — it is a field
    start: str | None = option(None, "a trained model to go on with: its weights and its vocabulary")
    epochs: int = option(30, "how often the training split is seen", least=1)
    tokens: int = option(4096, "tokens in a batch, padding included: of the longer side", least=16)
    accumulate: int = option(1, "batches whose gradients are added before a step", least=1)
    lr: float = option(0.0, "largest learning rate of Adam; 0: the paper's, (width · warmup)^−½", least=0)
    warmup: int = option(4000, "steps in which the learning rate rises; then it falls with the root of the steps", least=1)
    smoothing: float = option(0.1, "of labels", least=0, below=1)
    agreement: float = option(0.0, "R-Drop: read a batch twice, and learn to say the same whatever dropout hides; 0: once", least=0)
    decay: float = option(0.0, "weight decay", least=0)
    clip: float = option(0.0, "largest norm of the gradient; 0: any", least=0)
    average: int = option(5, "the kept model is the mean of the last so many epochs", least=1)
    checkpointing: bool = option(False, "compute each layer again in the backward pass: less memory, more time")
    cuda_graphs: bool = option(True, "on a GPU, launch a step at once, as recorded for its shape; padding is computed, too")
    precision: str = option("32", "of the arithmetic", PRECISIONS)
    bleu: int = option(0, "translate the validation split every so many epochs; 0: at the end only", least=0)
    beam: int = option(4, "of the search that validation is judged by at the end", least=1)
    penalty: float = option(0.6, "of length, in that search", least=0)
    patience: int = option(0, "stop after so many epochs without a better validation loss; 0: never", least=0)
    seed: int = option(0, "of weights and order", least=0)

    def from_anywhere(self) -> "TranslateRecipe":
        """With whole paths: what a run keeps of its recipe holds in another folder, too."""
        start = None if self.start is None else located(self.start)
        return self.changed(data=_located(self.data), start=start)


def _located(data: str) -> str:
    """A folder, a file or two files from the root on; a name of foveal's own as it is."""
    expect(bool(data), "the setting data", "a name or a path", "nothing")
    return located(data) if Path(data).expanduser().exists() else ",".join(map(located, data.split(",")))
