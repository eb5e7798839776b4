"""All images decoded once; those that cannot be read are listed with their reasons, and end nothing."""

import threading
import time
import warnings

import numpy as np
import pytest
from data.bad import BAD, GOOD, spoiled

from foveal.data.pack import pack, why
from foveal.data.read import read
from foveal.errors import FovealError
from foveal.runtime.blank import GREY, paint


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return read(str(spoiled(tmp_path_factory.mktemp("set"))))


def test_good_and_bad(source):
    packed = pack(source, 17)
    assert packed.pixels.shape == (len(source), 17, 17, 3)
    found = {one.file: one.reason for one in packed.bad}
    assert found.keys() == BAD.keys()
    for file, words in BAD.items():
        assert words in found[file], found[file]
    for index in range(len(source)):
        file = source.file(index)
        assert packed.good[index] == (file not in BAD)
        if file in BAD:
            assert not packed.pixels[index].any()
            told = why(source, index, 17)
            assert (told.file, told.reason) == (file, found[file])
        else:
            np.testing.assert_array_equal(packed.pixels[index], source.image(index, 17))
    assert {source.file(index) for index in np.flatnonzero(packed.good)} >= set(GOOD)
    kept = packed.keep(np.arange(len(source)))
    assert len(kept) == len(source) - len(BAD)


def test_progress_is_reported_for_every_image(source):
    seen = []

    def shown(items, total, what):
        assert (total, what) == (len(source), "opening images")
        for item in items:
            seen.append(item)
            yield item

    packed = pack(source, 11, shown)
    assert len(seen) == len(source)
    assert packed.good.sum() == len(source) - len(BAD)


def test_why_not_any_more(source):
    good = next(index for index in range(len(source)) if source.file(index) not in BAD)
    assert why(source, good, 9).reason == "it could not be read before, and can be now"


def test_warnings_are_as_before(source):
    """Pillow's warnings are silenced while an image is decoded, by threads at the same time.

    Afterwards others are heard.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        for _ in range(5):
            pack(source, 13)
        assert warnings.filters == before


def test_an_interruption_does_not_wait_for_all(source, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)

    opened = []

    class Slow:
        file = source.file

        def __len__(self):
            return 200

        def image(self, index, size):
            opened.append(index)
            time.sleep(0.02)
            return np.zeros((size, size, 3), np.uint8)

    def stop(items, total, what):
        for item in items:
            yield item
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(Slow(), 5, stop)
    assert len(opened) < 100
    assert threading.active_count() < 20


def test_paint():
    pixels = np.zeros((2, 10, 10, 3), np.uint8)
    paint(pixels, [(0.1, 0.5, 0.4, 1.0)])
    expected = np.zeros((10, 10), bool)
    expected[5:10, 1:4] = True
    np.testing.assert_array_equal((pixels == GREY).all(-1)[1], expected)
    assert pixels[:, ~expected].sum() == 0


@pytest.mark.parametrize("box", [(0, 0, 0, 1), (0.5, 0, 0.2, 1), (-0.1, 0, 1, 1), (0, 0, 1, 1.2), (0, 0, 1)])
def test_paint_refuses(box):
    with pytest.raises(FovealError, match="--blank: expected boxes"):
        paint(np.zeros((3, 3, 3), np.uint8), [box])
