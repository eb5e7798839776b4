"""Tiles: where they lie, how they are weighed, and that no seam shows."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from torch import nn

from foveal.errors import FovealError
from foveal.tasks.segment.card import SegmentCard
from foveal.tasks.segment.graph import scores
from foveal.tasks.segment.options import PredictOptions
from foveal.tasks.segment.predict_torch import TorchSegmenter
from foveal.tasks.segment.tiles import Tiling, between, blended, spans


class Local(nn.Module):
    """Its answer for a cell of 4 × 4 pixels depends on pixels that are at most 14 away."""

    stride, multiple = 4, 8

    def __init__(self, classes):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 7, 5, 2, 2), nn.ReLU(), nn.Conv2d(7, 7, 5, 2, 2), nn.ReLU(), nn.Conv2d(7, classes, 3, 1, 1)
        )

    def forward(self, images):
        return 5 * self.layers(images)


def card(**changes):
    facts = {"model": "local", "family": "local", "config": {}, "classes": ("background", "a", "b", "c")}
    return SegmentCard(**facts | {"size": 64, "multiple": 8} | changes)


def photo(height, width):
    """Blots a few pixels wide."""
    small = np.random.default_rng(height * width).integers(0, 256, (-(-height // 5), -(-width // 5), 3), np.uint8)
    return np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BILINEAR))


@pytest.mark.parametrize(
    ("zoom", "tile", "overlap"),
    [(1.0, 128, 64), (2.0, 128, 60), (0.5, 128, 64), (1.0, 136, 57)],
)
@pytest.mark.parametrize(("height", "width"), [(307, 411), (97, 503), (263, 101)])
def test_a_model_that_sees_what_is_near_says_the_same_in_tiles(zoom, tile, overlap, height, width):
    torch.manual_seed(1)
    model, image = Local(4), photo(height, width)
    whole, tiled = (
        TorchSegmenter(model, card(zoom=zoom), PredictOptions(tile=side, overlap=overlap), "cpu") for side in (0, tile)
    )
    (expected, sure), (found, tiled_sure) = whole.answer(image), tiled.answer(image)
    assert len(spans(max(height, width), tiled.tiling)) > 1
    assert len(np.unique(expected)) == 4
    if zoom >= 1:  # a quarter of the overlap is as far as it sees
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_allclose(tiled_sure, sure, atol=1e-6)
    assert (found != expected).mean() < 0.002


def test_by_hand_along_one_side():
    """20 pixels in tiles of 12 that overlap by 4: from 0 and from 8, which share 8 … 11, whose middle is 10."""
    one, two = spans(20, Tiling(12, 4))
    assert (one.start, one.stop, two.start, two.stop) == (0, 12, 8, 20)
    first, weights = one.weights(1.0, 12)
    assert first == 0
    np.testing.assert_allclose(weights, [1] * 9 + [0.75, 0.25])  # half of the overlap is from 9 to 11
    first, weights = two.weights(1.0, 12)
    assert first == 9
    np.testing.assert_allclose(weights, [0.25, 0.75] + [1] * 9)
    first, weights = two.weights(2.0, 6)  # cells of two pixels, whose middles are 9, 11, …
    assert first == 5
    np.testing.assert_allclose(weights, [1] * 5)
    first, weights = one.weights(0.5, 24)
    assert first == 0
    np.testing.assert_allclose(weights, [1] * 18 + [0.875, 0.625, 0.375, 0.125])


@given(
    grid=st.sampled_from([1, 2, 3, 8, 32]),
    side=st.integers(1, 20),
    overlap=st.integers(0, 10),
    length=st.integers(1, 700),
    parts=st.sampled_from([1, 2, 4]),
)
def test_the_weights_of_all_tiles_add_up_to_one(grid, side, overlap, length, parts):
    assume(2 * overlap <= side and grid % parts == 0)
    cell, tiling = grid / parts, Tiling(side * grid, overlap * grid, grid)
    placed = spans(length, tiling)
    sums = np.zeros(-(-length // grid) * parts)
    margin = overlap * grid / 4
    for one, after in zip(placed, [*placed[1:], None], strict=True):
        assert one.start % grid == 0
        assert 0 < one.stop - one.start <= tiling.side
        assert after is None or after.start < one.stop or not overlap
        count = -(-(one.stop - one.start) // grid) * parts
        first, weights = one.weights(cell, count)
        sums[first : first + len(weights)] += weights
        end = first + len(weights)
        assert one.start == 0 or (first + 0.5) * cell >= one.start + margin
        assert one.stop == length or (end - 0.5) * cell <= one.stop - margin
        assert (weights > 0).all()
    assert placed[-1].stop == length
    np.testing.assert_allclose(sums, 1, atol=1e-6)


@given(length=st.integers(1, 90), times=st.sampled_from([0.5, 1, 2, 4, 8]), seed=st.integers(0, 9))
def test_cells_are_enlarged_as_torch_does_it(length, times, seed):
    cells = -(-length // 8) * 8 / times
    values = np.random.default_rng(seed).normal(size=int(cells)).astype(np.float32)
    expected = nn.functional.interpolate(torch.from_numpy(values)[None, None], scale_factor=times, mode="linear")
    lower, upper, share = between(length, times, -(-length // 8) * 8)
    np.testing.assert_allclose(
        values[lower] * (1 - share) + values[upper] * share, expected[0, 0, :length].numpy(), atol=1e-5
    )


@pytest.mark.parametrize(("height", "width"), [(5, 61), (61, 5), (47, 53), (31, 31)])
def test_one_pixel_per_cell(height, width):
    """Where cells are pixels and the logits are the image, nothing is lost, whatever the tiles are; and the scores are
    those of graph.py.
    """
    image = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    logits = np.moveaxis(image.astype(np.float32) / 30, 2, 0)
    expected = scores(torch.from_numpy(logits)[None])[0].numpy()
    for tiling in (Tiling(31, 0), Tiling(16, 8, 2), Tiling(3, 1), Tiling(8, 4, 4)):
        label_map, sure = blended(image, tiling, lambda tile, grid=tiling.grid: _filled(tile, grid))
        np.testing.assert_array_equal(label_map, logits.argmax(0))
        if tiling.grid == 1:
            np.testing.assert_allclose(sure, expected, atol=1e-6)


def _filled(tile, grid):
    """The image as logits, repeated until the grid divides its sides."""
    missing = [(0, -side % grid) for side in tile.shape[:2]]
    return np.moveaxis(np.pad(tile, (*missing, (0, 0)), mode="edge").astype(np.float32) / 30, 2, 0)


def test_a_seam_is_a_slope_and_no_step():
    """Tiles that say 0 and 1 of the same kind of pixel: the border is where both are as likely, in the middle."""
    said = iter([np.array([0.0, 1.0]), np.array([1.0, 0.0])])

    def logits(tile):
        return np.broadcast_to(next(said)[:, None, None], (2, *tile.shape[:2])).astype(np.float32)

    label_map, _ = blended(np.zeros((3, 20, 3), np.uint8), Tiling(12, 4), logits)
    np.testing.assert_array_equal(label_map, [[1] * 10 + [0] * 10] * 3)


def test_the_memory_is_that_of_a_row_of_tiles():
    image = np.zeros((12_000, 300, 3), np.uint8)  # 8 maps of it in float32 are 115 MB
    seen = []

    def logits(tile):
        seen.append(tile.shape[:2])
        return np.zeros((8, *tile.shape[:2]), np.float32)

    tracemalloc.start()
    try:
        label_map, _ = blended(image, Tiling(128, 32), logits)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert label_map.shape == (12_000, 300)
    assert max(max(shape) for shape in seen) == 128
    assert peak < 20e6


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((1024, 128, 32, 1.0), Tiling(1024, 128, 32)),
        ((1000, 100, 32, 1.0), Tiling(992, 128, 32)),
        ((1024, 128, 32, 0.25), Tiling(4096, 512, 128)),
        ((1024, 128, 32, 2.0), Tiling(512, 64, 16)),
        ((100, 7, 1, 4.0), Tiling(25, 2, 1)),  # no part of a pixel
        ((64, 0, 32, 1.0), Tiling(64, 0, 32)),
    ],
)
def test_what_a_model_sees_as_pixels_of_the_image(given, expected):
    assert Tiling.of(*given) == expected


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ((31, 0, 32), "--tile: expected at least 32 pixels, the least that the model sees, got 31"),
        ((100, 50, 32), "--tile: expected at least 128 pixels, twice the overlap, in steps of 32, got 100"),
    ],
)
def test_tiles_that_are_too_small(given, line):
    with pytest.raises(FovealError, match=line):
        Tiling.of(*given)


def test_cells_of_no_single_size():
    with pytest.raises(FovealError, match=r"the model's logits: expected cells of one size .* got \(2, 3, 4\)"):
        blended(np.zeros((20, 20, 3), np.uint8), Tiling(12, 4), lambda tile: np.zeros((2, 3, 4), np.float32))
