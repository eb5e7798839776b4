"""Bytes become what a model takes, once for all: by hand, with boxes painted."""

import numpy as np
import torch

from foveal.data.image_input import ImageInput

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.5)


def frames(count=5, side=7):
    return list(np.random.default_rng(0).integers(0, 256, (count, side, side, 3), np.uint8))


def test_by_hand():
    given = frames()
    made = ImageInput(MEAN, STD).frames(given)
    assert made.shape == (5, 3, 7, 7)
    for channel in range(3):
        expected = (given[3][..., channel] / 255 - MEAN[channel]) / STD[channel]
        np.testing.assert_allclose(made[3, channel].numpy(), expected, atol=1e-6)


def test_blank_boxes_are_painted_and_what_was_given_stays():
    given = frames()
    before = [one.copy() for one in given]
    made = ImageInput(MEAN, STD).frames(given, [[0, 0, 1, 3 / 7]])
    torch.testing.assert_close(made[:, 1, :3], torch.full((5, 3, 7), (128 / 255 - 0.4) / 0.25))
    assert all((one == other).all() for one, other in zip(given, before, strict=True))


def test_it_is_in_no_state():
    assert not ImageInput(MEAN, STD).state_dict()
