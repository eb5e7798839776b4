"""Data sets and images that situations begin with."""

import os

import numpy as np
from PIL import Image
from training.little import image


def table(text, count=20, folder="d"):
    """Makes a folder with images 0.png … and this labels.csv.

    {rows} stands for a row `N.png,a` or `N.png,b` of each.
    """

    def make(place):
        (place / folder).mkdir()
        for number in range(count):
            Image.fromarray(image(number, number % 2)).save(place / folder / f"{number}.png")
        rows = "".join(f"{number}.png,{'ab'[number % 2]}\n" for number in range(count))
        (place / folder / "labels.csv").write_text(text.replace("{rows}", rows), encoding="utf-8")

    return make


def class_folders(*names, count=6, folder="d"):
    def make(place):
        for number, name in enumerate(names):
            inside = place / folder / os.fsdecode(name)
            inside.mkdir(parents=True)
            for one in range(count):
                Image.fromarray(image(one, number % 2)).save(inside / f"{one}.png")

    return make


def loop(place):
    class_folders("a", "b")(place)
    (place / "d/b/up").symlink_to("../../d")
    (place / "d/b/self.png").symlink_to("self.png")


def looped_folder(place):
    class_folders("a", "b")(place)
    (place / "d/c").symlink_to("c")


def photo(name="photo.png", side=64):
    def make(place):
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (side, side, 3), np.uint8)).save(
            place / os.fsdecode(name)
        )

    return make
