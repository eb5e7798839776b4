"""Images that are painted in what a model will say of them, and the model that reads it off.

Red is 50 times the label, green how sure the model is of it.
"""

import os

import numpy as np
import torch
from PIL import Image
from torch import nn

from foveal.data.name_sketch import sketch
from foveal.data.segments import read_segments
from foveal.tasks.model import Model
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.task import TASK

STEP, SURE = 50, 200
KINDS = ("crack", "hole")


class Reads(nn.Module):
    stride = multiple = 1

    def __init__(self, classes):
        super().__init__()
        self.labels = nn.Parameter(torch.arange(float(classes))[None, :, None, None])

    def forward(self, images):
        red, green = 255 * images[:, :1], 255 * images[:, 1:2]
        return -(red / STEP - self.labels).square() * green / 20


def painted(label_map, sure=SURE):
    """The image of which the model will say this."""
    labels = np.asarray(label_map, np.uint8)
    return np.stack([STEP * labels, np.full_like(labels, sure), np.zeros_like(labels)], -1)


def a_set(folder, images, kinds=KINDS, **columns):
    """images: of each its label map and what the model will say; columns: of the csv, a value for each image."""
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "classes.txt").write_text("".join(f"{kind}\n" for kind in kinds))
    lines = [",".join(["file", "mask", *columns])]
    for place, (truth, said) in enumerate(images):
        Image.fromarray(painted(said)).save(folder / f"images/{place}.png")
        Image.fromarray(np.asarray(truth, np.uint8)).save(folder / f"masks/{place}.png")
        lines.append(
            ",".join([f"images/{place}.png", f"masks/{place}.png", *(str(one[place]) for one in columns.values())])
        )
    (folder / "index.csv").write_text("\n".join(lines) + "\n")
    return folder


def a_model(data=None, name="reads", kinds=KINDS, network=None, **recipe):
    """The model, as if it had been trained with these data."""
    source = None if data is None else read_segments(str(data), fold_column=recipe.get("fold_column"), bad="leave_out")
    own = {} if data is None else {"data": str(data)}
    facts = {}
    if source is not None:
        train = source.indices("train", recipe.get("fold"))
        facts = source.facts() | {"trained_on": sketch(os.fsencode(source.file(int(one))) for one in train)}
    card = SegmentCard(
        model=name,
        family="reads",
        config={},
        classes=("background", *kinds),
        size=32,
        multiple=1,
        mean=(0.0, 0.0, 0.0),
        std=(1.0, 1.0, 1.0),
        recipe={"seed": 3} | own | recipe,
        data=facts,
    )
    return Model(TASK, card, network=network or Reads(len(kinds) + 1), device="cpu")


def maps(*rows):
    """A label map of rows of digits: maps("110", "002")."""
    return np.array([[int(one) for one in row] for row in rows], np.uint8)
