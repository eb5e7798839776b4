"""Overlays: colours that nobody mixes up, and a picture in which nothing disappears."""

import io

import numpy as np
import pytest
from PIL import Image
from tasks.segment.painted import maps

from foveal.report.picture import PAPER
from foveal.tasks.segment.overlay import LONGEST, SHORTEST, at_sight, overlay, palette, palette_png, veiled


def test_colours_are_far_apart():
    colours = palette().astype(int)
    assert colours.shape == (256, 3)
    assert colours[0].tolist() == [0, 0, 0]
    assert colours[255].tolist() == [255, 255, 255]
    apart = np.abs(colours[:, None] - colours).sum(-1)
    np.fill_diagonal(apart, 999)
    assert apart.min() > 0  # no two are equal
    assert apart[:17, :17].min() >= 85
    light = colours[1:17] @ [0.299, 0.587, 0.114]
    assert light.min() > 70  # seen in a dark pipe
    assert light.max() < 240


def test_a_palette_png_holds_the_labels():
    label_map = np.arange(256, dtype=np.uint8).reshape(8, 32)
    with Image.open(io.BytesIO(palette_png(label_map))) as image:
        assert image.mode == "P"
        np.testing.assert_array_equal(np.asarray(image), label_map)
        np.testing.assert_array_equal(np.array(image.convert("RGB")), palette()[label_map])


def test_a_veil_over_what_is_found_and_a_line_around_it():
    label_map = np.zeros((21, 31), np.uint8)
    label_map[8:13, 10:20] = 2
    pixels = np.full((21, 31, 3), 100, np.uint8)
    seen = veiled(pixels, label_map)
    np.testing.assert_array_equal(seen[10, 15], np.round(0.6 * 100 + 0.4 * palette()[2].astype(float)))
    for row, column in ((7, 15), (13, 15), (10, 9), (10, 20), (7, 9)):
        np.testing.assert_array_equal(seen[row, column], palette()[2])
    np.testing.assert_array_equal(seen[6, 15], [100, 100, 100])
    assert (pixels == 100).all()
    np.testing.assert_array_equal(veiled(pixels, np.zeros_like(label_map)), pixels)


@pytest.mark.parametrize(("height", "width"), [(3301, 211), (211, 4801), (1601, 1601)])
def test_what_is_thin_stays_to_be_seen(height, width):
    label_map = np.zeros((height, width), np.uint8)
    label_map[height // 2] = 3
    label_map[-1, -1] = 1
    image, labels = at_sight(np.full((height, width, 3), 90, np.uint8), label_map)
    assert image.shape[:2] == labels.shape
    assert max(labels.shape) <= LONGEST
    assert max(labels.shape) > LONGEST / 2
    times = -(-max(height, width) // LONGEST)
    assert (labels[height // 2 // times] == 3).all()
    assert labels[-1, -1] == 1
    assert (image == 90).all()


def test_what_is_small_is_enlarged_by_a_whole_number():
    label_map = maps("012", "000")
    image, labels = at_sight(np.repeat(label_map[..., None], 3, -1), label_map)
    assert labels.shape == (2 * SHORTEST // 3, SHORTEST)
    np.testing.assert_array_equal(labels[:: SHORTEST // 3, :: SHORTEST // 3], label_map)
    np.testing.assert_array_equal(image[..., 0], labels)


def test_the_legend_has_the_colours_and_wraps():
    pixels, label_map = np.full((40, 500, 3), 60, np.uint8), np.zeros((40, 500), np.uint8)
    few, many = (
        np.asarray(overlay(pixels, label_map, [(label, f"class {label} 1.00% (0.50)") for label in range(1, count)]))
        for count in (3, 11)
    )
    assert few.shape[1] == many.shape[1] == 500
    assert 40 < len(few) < len(many)
    below = {tuple(colour) for colour in many[40:].reshape(-1, 3).tolist()}
    assert {tuple(palette()[label].tolist()) for label in range(1, 11)} <= below
    assert PAPER in below
    nothing = np.asarray(overlay(pixels, label_map, []))
    assert len(nothing) == len(few)
    assert (nothing[40:] != 255).any()  # it says so


def test_an_image_that_is_narrow_has_room_for_its_legend():
    narrow = overlay(np.full((900, 40, 3), 60, np.uint8), np.zeros((900, 40), np.uint8), [(1, "crack 1.00% (0.50)")])
    assert narrow.width == 320
    assert narrow.getpixel((39, 899)) == (60, 60, 60)
    assert narrow.getpixel((40, 0)) == PAPER
