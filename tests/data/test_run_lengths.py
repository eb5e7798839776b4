"""COCO's run lengths, as numbers and as letters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from foveal.data.run_lengths import compressed, decompressed, mask_of, run_lengths
from foveal.errors import FovealError

masks = arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=13))


def test_by_hand():
    mask = np.array([[0, 1, 1], [0, 0, 1]], bool)
    assert run_lengths(mask) == [2, 1, 1, 2]
    assert run_lengths(~mask) == [0, 2, 1, 1, 2]
    # 100 = 3·32 + 4, so 4 and more, then 3; 7 − 3 = 4; 2 − 100 = −98 = −4·32 + 30, so 30 and more, then −4 as 28
    letters = [5, 3, 4 + 32, 3, 4, 30 + 32, 28]
    assert compressed([5, 3, 100, 7, 2]) == "".join(chr(48 + letter) for letter in letters) == "53T34nL"
    assert decompressed("53T34nL") == [5, 3, 100, 7, 2]


@given(masks)
def test_masks_come_back(mask):
    counts = run_lengths(mask)
    assert sum(counts) == mask.size
    flat = [bool(place % 2) for place, count in enumerate(counts) for _ in range(count)]
    assert flat == mask.T.ravel().tolist()
    assert (mask_of(counts, *mask.shape) == mask).all()


@given(st.lists(st.integers(0, 10**9), max_size=17))
def test_letters_come_back(counts):
    assert decompressed(compressed(counts)) == counts


@pytest.mark.parametrize("counts", [[3, 4], [7, -1], [2.5, 3.5], [[1], [5]], [10**30], [True, "a"], ["6"]])
def test_counts_of_no_mask(counts):
    with pytest.raises(FovealError, match="here: expected run lengths that add up to 2 · 3 pixels"):
        mask_of(counts, 2, 3, "here")


@pytest.mark.parametrize("text", ["T", "5 3", "ü", "o" * 99 + "0", "\0"])
def test_letters_of_no_counts(text):
    with pytest.raises(FovealError, match="here: expected run lengths as COCO's letters"):
        decompressed(text, "here")
