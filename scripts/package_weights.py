"""package_weights.py RUN NAME: the model of a run on drawn pipes becomes weights in the package,
with its figures on the test split in its card. Of a segmenter: those of the evaluation EVALUATION, a folder.

package_weights.py RUN NAME EVALUATION

package_weights.py --again     writes the weights that are there anew: today's layout of the card, and the .onnx file
that runs without torch
"""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import foveal
from foveal.metrics.classification import average_precision
from foveal.models.store import save_model
from foveal.runtime.answers import decide, probabilities
from foveal.runtime.packaged import EXPORTED, SUFFIX, WEIGHTS, names
from foveal.tasks.classify.finish import predictions
from foveal.tasks.classify.predictions import read_predicted

NOTE = (
    "Trained on drawn pipes only: 15 kinds of finding, {frames} frames of `foveal render pipes`, no photograph. Good "
    "for a first look, for trying "
    "foveal out, and to begin training on your own images with (--init-from {name}). Not good for judging a real "
    "pipe: on real "
    "photographs its findings are guesses, and no condition grade, repair or safety decision may rest on them."
)


def main(run: Path, name: str, evaluation: Path | None) -> None:
    card: Any = foveal.load(run, device="cpu").card
    if evaluation is not None:
        found = json.loads((evaluation / "evaluation.json").read_text())
        figures = {name: one["value"] for name, one in found["figures"].items()}
        kinds = {one["name"]: one["figures"]["IoU"]["value"] for one in found["classes"]}
        metrics = card.metrics | {"test": {"images": found["images"], **figures, "IoU": kinds}}
        print(json.dumps(metrics, indent=1))
        first: Any = foveal.load(card.recipe["init_from"], device="cpu").card
        recipe = card.recipe | {"init_from": f"a run on {first.recipe['data']}"}
        write(run, name, f"{card.data['images'] + first.data['images']:,}", metrics=metrics, recipe=recipe)
        return
    test = read_predicted(run / predictions("test"), card.multi_label)
    probability = probabilities(test.logits, card.multi_label, card.temperature)
    found = decide(probability, card.multi_label, None if card.threshold is None else np.array(card.threshold))
    precise = average_precision(test.truth, probability)
    normal, clean = (test.truth == 0).all(1), (found == 0).all(1)
    metrics = card.metrics | {
        "test": {
            "images": len(test.files),
            "map": round(float(precise.mean()), 4),
            "ap": {name: round(float(value), 4) for name, value in zip(card.classes, precise, strict=True)},
            "f1_normal": round(float(2 * (normal & clean).sum() / (normal.sum() + clean.sum())), 4),
        }
    }
    print(json.dumps(metrics, indent=1))
    write(run, name, metrics=metrics, recipe=card.recipe | {"data": f"pipes:{card.data['images']}"})


def write(source: Path, name: str, frames: str = "", **facts: Any) -> None:
    """frames: on how many it was trained; else the note stays as it is, or counts those of the run."""
    model = foveal.load(source, device="cpu")
    frames = frames or f"{model.card.data['images']:,}"
    again = "Trained on drawn pipes" in str(model.card.note)
    facts = ({} if again else {"note": NOTE.format(name=name, frames=frames)}) | facts
    save_model(
        model.network, WEIGHTS / f"{name}{SUFFIX}", dataclasses.replace(model.card, foveal=foveal.__version__, **facts)
    )
    print(foveal.load(WEIGHTS / f"{name}{SUFFIX}", device="cpu").export(WEIGHTS / f"{name}{EXPORTED}").summary())
    (WEIGHTS / f"{name}{EXPORTED}.proof.json").unlink()  # it is in the file, too


if __name__ == "__main__":
    if sys.argv[1:] == ["--again"]:
        for packaged in names():
            write(WEIGHTS / f"{packaged}{SUFFIX}", packaged)
    elif len(sys.argv) in (3, 4):
        main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]) if len(sys.argv) == 4 else None)
    else:
        got = " ".join(sys.argv[1:]) or "nothing"
        sys.exit(f"error: package_weights.py: expected RUN NAME, RUN NAME EVALUATION, or --again, got {got}")
