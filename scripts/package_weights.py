"""package_weights.py RUN NAME: the model of a run on drawn pipes becomes weights in the package, with its figures on the test split in its card."""

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np

from foveal.metrics.calibration import apply
from foveal.metrics.classification import average_precision, decide
from foveal.models.store import load_model, save_model
from foveal.runtime.packaged import WEIGHTS
from foveal.tasks.classify.finish import predictions
from foveal.tasks.classify.predictions import read_predicted

NOTE = (
    "Trained on drawn pipes only: 15 kinds of finding, 24,000 frames of `foveal render pipes`, no photograph. Good for a first look, for trying "
    "foveal out, and as a start for training on your own pictures (--start {name}). Not good for judging a real pipe: on real "
    "photographs its findings are guesses, and no condition grade, repair or safety decision may rest on them."
)


def main(run: Path, name: str) -> None:
    model, card = load_model(run)
    test = read_predicted(run / predictions("test"), card.multi_label)
    probabilities = apply(test.logits, card.multi_label, card.temperature)
    found = decide(probabilities, card.multi_label, None if card.threshold is None else np.array(card.threshold))
    precise = average_precision(test.truth, probabilities)
    normal, clean = (test.truth == 0).all(1), (found == 0).all(1)
    metrics = card.metrics | {
        "test": {
            "pictures": len(test.files),
            "map": round(float(precise.mean()), 4),
            "ap": {name: round(float(value), 4) for name, value in zip(card.classes, precise, strict=True)},
            "f1_normal": round(float(2 * (normal & clean).sum() / (normal.sum() + clean.sum())), 4),
        }
    }
    recipe = card.recipe | {"data": f"pipes:{card.data['pictures']}"}
    note = dataclasses.replace(card, note=NOTE.format(name=name), metrics=metrics, recipe=recipe)
    WEIGHTS.mkdir(exist_ok=True)
    file = WEIGHTS / f"{name}.safetensors"
    save_model(model, file, note)
    print(json.dumps(metrics, indent=1))
    print(f"wrote {file}, {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
