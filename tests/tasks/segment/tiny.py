"""A training run of a few seconds, and inputs for its model: what every hostile situation of this task starts from."""

import json

import numpy as np
from PIL import Image
from tasks.segment.squares import FIELDS, squares

FLAGS = [
    "--model",
    FIELDS["model"],
    "--config",
    json.dumps(FIELDS["config"]),
    "--size",
    "32",
    "--zoom",
    "1",
    "--batch",
    "4",
    "--augment",
    "turns",
    "--epochs",
    "1",
    "--device",
    "cpu",
]


def make_data(folder):
    """What --data names, relative to the folder."""
    squares(folder / "data")
    return "data"


def change_data(folder):
    """One sample more than when the run began."""
    for name in ("images", "masks"):
        Image.open(folder / f"data/{name}/001.png").save(folder / f"data/{name}/more.png")


def inputs(folder):
    """What predict is given."""
    for name, side in (("one", 37), ("two", 64)):
        pixels = np.random.default_rng(side).integers(90, 130, (side, side + 3, 3), np.uint8)
        pixels[9:23, 11:20] = (200, 60, 60)
        Image.fromarray(pixels).save(folder / f"{name}.png")
    return ["one.png", "two.png"]


def subject(folder):
    """What explain is given."""
    inputs(folder)
    return "one.png"
