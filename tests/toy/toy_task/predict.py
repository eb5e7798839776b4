"""A gauge at work: image files or arrays in, one value each out. An exported file is read without torch."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from foveal.errors import FovealError, expect
from foveal.options import Options, option
from foveal.runtime.image import Pixels, open_image
from foveal.tasks.task import Predictor

if TYPE_CHECKING:
    from foveal.tasks.model import Model

SUFFIXES = (".png", ".jpg")


@dataclass(frozen=True)
class PredictOptions(Options):
    digits: int = option(3, "digits after the point", least=0, below=9)


@dataclass(frozen=True)
class Reading:
    file: str
    value: float = float("nan")
    error: str = ""


class GaugePredictor(Predictor):
    noun = "image"

    def __init__(self, model: "Model", options: PredictOptions) -> None:
        self.size: int = model.card.size  # type: ignore[attr-defined]
        self.values, self.digits = values_of(model), options.digits

    def inputs(self, words: Sequence[str]) -> Sequence[Any]:
        found: list[str] = []
        for word in words:
            path = Path(word)
            files = sorted(str(file) for file in path.iterdir() if file.suffix in SUFFIXES) if path.is_dir() else [word]
            expect(bool(files), word, "a folder with images", "one without")
            found += files
        return found

    def predict(self, inputs: Iterable[Any]) -> Iterator[Reading]:
        for number, one in enumerate(inputs):
            named = isinstance(one, (str, Path))
            file = str(one) if named else f"input {number}"
            try:
                pixels = (
                    open_image(one, self.size)
                    if named
                    else np.asarray(Image.fromarray(np.asarray(one)).resize((self.size, self.size)))
                )
            except FovealError as error:
                yield Reading(file, error=str(error))
            else:
                yield Reading(file, float(self.values(pixels[None])[0]))

    def rows(self, form: str, widest: int) -> tuple[str, Callable[[Reading], str]]:
        if form == "jsonl":
            return (
                "",
                lambda one: (
                    json.dumps({"file": one.file, **({"error": one.error} if one.error else {"value": one.value})})
                    + "\n"
                ),
            )
        if form == "csv":
            return "file,value,error\n", lambda one: f"{one.file},{'' if one.error else self._text(one)},{one.error}\n"
        return f"{'file':{widest}}  value\n", lambda one: f"{one.file:{widest}}  {one.error or self._text(one)}\n"

    def _text(self, one: Reading) -> str:
        return f"{one.value:.{self.digits}f}"


def values_of(model: "Model") -> Callable[[Pixels], Any]:
    """Frames (B, S, S, 3) of bytes → values (B,), by whatever the model is."""
    if model.is_exported:
        session = model.exported.session
        return lambda frames: session.run(["value"], {"frames": frames})[0]
    import torch

    from toy_task.export import Frames

    frames_to_values = Frames(model.network)

    @torch.no_grad()
    def by_torch(frames: Pixels) -> Any:
        device = next(model.network.parameters()).device
        return frames_to_values(torch.from_numpy(np.array(frames)).to(device)).cpu().numpy()

    return by_torch
