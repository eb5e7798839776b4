"""Label maps that do not lie where their images show something are found, and others are not."""

from dataclasses import replace

import numpy as np
import pytest

from foveal.data.segments import read_segments
from foveal.data.shift import Shift, scores, shift_notes, shift_of_image, shift_of_set


def blob(seed, height=71, width=83):
    """An image of a bright blob on noise, and its label map."""
    draw = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    inside = ((y - draw.uniform(30, 40)) / 11) ** 2 + ((x - draw.uniform(35, 50)) / 17) ** 2 < 1
    grey = 80 + 70 * inside + draw.normal(0, 6, (height, width))
    return np.repeat(grey.clip(0, 255).astype(np.uint8)[..., None], 3, -1), inside.astype(np.uint8)


@pytest.mark.parametrize(("down", "right"), [(0, 0), (5, 0), (-3, 7), (4, -9), (-12, -11)])
def test_an_image_whose_label_map_is_shifted(down, right):
    image, label_map = blob(1)
    found = scores(image, np.roll(label_map, (down, right), (0, 1)))
    assert found.shape == (33, 33)
    assert found.mean() == pytest.approx(0, abs=1e-9)
    assert shift_of_image(found) == (Shift(down, right) if down or right else None)


def test_noise_and_what_is_too_small_tell_nothing():
    image, label_map = blob(2)
    noise = np.random.default_rng(0).integers(0, 256, image.shape, np.uint8)
    assert shift_of_image(scores(noise, label_map)) is None
    small = np.zeros((19, 31), np.uint8)
    small[2:8, 3:9] = 1  # moved by 16 pixels, most of it lies outside
    for seed in range(40):
        noise = np.random.default_rng(seed).integers(0, 256, (19, 31, 3), np.uint8)
        assert shift_of_image(scores(noise, small)) is None
    assert scores(image, np.zeros_like(label_map)) is None
    assert scores(np.full_like(image, 90), label_map) is None
    dot = np.zeros_like(label_map)
    dot[30, 30] = 1
    assert scores(image, dot) is None


def test_a_set_is_shifted_by_less_than_an_image_can_tell():
    found = [scores(image, np.roll(label_map, (2, -1), (0, 1))) for image, label_map in map(blob, range(8))]
    assert shift_of_image(found[0]) is None
    assert shift_of_set(found) == Shift(2, -1)
    assert shift_of_set(found[:7]) is None  # too few
    assert shift_of_set([scores(*blob(seed)) for seed in range(8)]) is None


def test_how_a_shift_is_told():
    assert str(Shift(3, -2)) == "2 left and 3 down of where they belong"
    assert str(Shift(-1, 0)) == "1 up of where they belong"


class Moved:
    """Label maps of a set, of which every n-th is moved."""

    def __init__(self, maps, down, right, every=1):
        self.maps, self.by, self.every = maps, (down, right), every

    def label_map(self, index):
        label_map = self.maps.label_map(index)
        return np.roll(label_map, self.by, (0, 1)) if index % self.every == 0 else label_map


def test_notes_of_rendered_pipes():
    source = read_segments("pipes:31:4")
    assert shift_notes(source) == []
    (note,) = shift_notes(replace(source, maps=Moved(source.maps, 3, -2)))
    assert note.startswith("the label maps look shifted: they lie 2 left and 3 down of where they belong, by ")
    (note,) = shift_notes(replace(source, maps=Moved(source.maps, 10, -8, every=5)), most=None)
    assert "8 left and 10 down" in note
    assert "pipe-40000" in note


def test_a_shifted_set_is_noted_when_it_is_read(tmp_path):
    from PIL import Image

    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    for seed in range(9):
        image, label_map = blob(seed)
        Image.fromarray(image).save(tmp_path / f"images/{seed}.png")
        Image.fromarray(np.roll(label_map, 6, 1)).save(tmp_path / f"masks/{seed}.png")
    notes = read_segments(str(tmp_path)).notes
    assert "the label maps look shifted: they lie 6 right of where they belong, by 9 images" in notes
