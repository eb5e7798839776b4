"""Where a gauge looked: the weights of its one attention, over the image."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import foveal
from foveal.atomic import write_atomic
from foveal.errors import expect
from foveal.options import Options, option
from foveal.report.picture import png
from foveal.runtime.image import Pixels, open_image
from foveal.tasks.model import Model
from foveal.tasks.task import Explanation
from toy_task.export import Frames


@dataclass(frozen=True)
class ExplainOptions(Options):
    gamma: float = option(
        0.5, "exponent of the weights in the image: below 1, faint ones are seen better", least=0, below=5
    )


class GaugeExplanation(Explanation):
    suffix = ".png"

    def __init__(self, pixels: Pixels, value: float, weights: np.ndarray, gamma: float) -> None:
        self.pixels, self.arrays, self.gamma = pixels, {"weights": weights}, gamma
        row, column = np.unravel_index(int(weights.argmax()), weights.shape)
        patch = len(pixels) // len(weights)
        self.facts: dict[str, Any] = {
            "value": value,
            "x": int(column * patch + patch // 2),
            "y": int(row * patch + patch // 2),
        }

    def summary(self) -> str:
        return f"{self.facts['value']:.3f}, read at x = {self.facts['x']}, y = {self.facts['y']}"

    def save(self, path: str | Path) -> list[Path]:
        write_atomic(Path(path), self.content())
        return [Path(path)]

    def content(self) -> bytes:
        weights = self.arrays["weights"]
        light = np.kron((weights / weights.max()) ** self.gamma, np.ones((len(self.pixels) // len(weights),) * 2))
        return png(Image.fromarray((self.pixels * light[..., None]).astype(np.uint8)))


def explain(model: Model, subject: Any, options: ExplainOptions) -> GaugeExplanation:
    expect(isinstance(subject, (str, Path)), "explain", "the name of an image", type(subject).__name__)
    pixels = open_image(subject, model.card.size)  # type: ignore[attr-defined]
    network = model.network
    with torch.no_grad(), foveal.watch(network) as seen:
        value = float(Frames(network)(torch.from_numpy(pixels)[None].to(next(network.parameters()).device))[0])
    weights = next(iter(seen.values())).weights.cpu().numpy().ravel()
    side = round(len(weights) ** 0.5)
    return GaugeExplanation(pixels, value, weights.reshape(side, side), options.gamma)
