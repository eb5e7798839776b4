"""A training run of a few seconds, and inputs for its model: what every hostile situation of this task starts from."""

import shutil

from PIL import Image
from training.little import FLAGS as SMALL
from training.little import a_set, image

FLAGS = [*SMALL, "--augment", "none", "--epochs", "1"]


def make_data(folder):
    """What --data names, relative to the folder."""
    a_set(folder / "data")
    return "data"


def change_data(folder):
    """One sample more than when the run began."""
    shutil.copy(folder / "data/0.png", folder / "data/more.png")
    with (folder / "data/labels.csv").open("a", encoding="utf-8") as table:
        table.write("more.png,left,train,0\n")


def inputs(folder):
    """What predict is given."""
    Image.fromarray(image(101, 0)).save(folder / "one.png")
    Image.fromarray(image(102, 1)).save(folder / "two.png")
    return ["one.png", "two.png"]


def subject(folder):
    """What explain is given."""
    inputs(folder)
    return "one.png"
