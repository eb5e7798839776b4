"""Coloured squares on grey noise, small enough to learn in seconds."""

import numpy as np
from PIL import Image

COLOURS = ((200, 60, 60), (60, 60, 200))
FIELDS = {
    "model": "icam-seg",
    "config": {
        "image": 32,
        "stem": 8,
        "stages": [
            {"width": 8, "stride": 2, "expand": 1, "squeeze": False},
            {"width": 12, "stride": 2, "expand": 2, "squeeze": False},
        ],
        "path": 8,
        "width": 8,
        "hidden": 8,
    },
    "size": 32,
    "zoom": 1.0,
    "batch": 4,
    "epochs": 2,
    "augment": "turns",
}


def squares(folder, count=24, side=(36, 40), seed=0):
    """A folder of images and label maps: every third image is empty, the others have a square of one of two classes."""
    draw = np.random.default_rng(seed)
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "classes.txt").write_text("red\nblue\n")
    for number in range(count):
        image = draw.integers(90, 130, (*side, 3), np.uint8)
        labels = np.zeros(side, np.uint8)
        if number % 3:
            kind, size = number % 2, int(draw.integers(8, 16))
            top, left = int(draw.integers(side[0] - size)), int(draw.integers(side[1] - size))
            image[top : top + size, left : left + size] = COLOURS[kind]
            labels[top : top + size, left : left + size] = kind + 1
        Image.fromarray(image).save(folder / f"images/{number:03d}.png")
        Image.fromarray(labels).save(folder / f"masks/{number:03d}.png")
    return folder
