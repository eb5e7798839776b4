"""A stem that reads runs of bytes says what the stem says."""

import pytest
import torch
from torch import nn

from foveal.deploy.twins.byte_stem import ByteStem
from foveal.models.mbconv import Same

STEMS = {
    "3 × 3, stride 2": lambda: nn.Conv2d(3, 5, 3, 2, 1),
    "3 × 3, stride 2, TensorFlow's": lambda: Same(3, 5, 3, 2),
    "7 × 7, stride 4": lambda: nn.Conv2d(3, 5, 7, 4, 2),
    "7 × 7, stride 2, TensorFlow's": lambda: Same(3, 5, 7, 2),
    "squares of 4": lambda: nn.Conv2d(3, 5, 4, 4),
    "5 × 5, stride 2": lambda: nn.Conv2d(3, 5, 5, 2, 2),
}


@pytest.mark.parametrize("name", STEMS)
def test_it_says_the_same(name):
    torch.manual_seed(0)
    stem, mean = STEMS[name]().requires_grad_(False), (10 / 255, 127 / 255, 200 / 255)
    frames = torch.randint(0, 256, (2, 24, 36, 3), dtype=torch.uint8)
    pixels = frames.permute(0, 3, 1, 2).float() - 255 * torch.tensor(mean)[:, None, None]
    found = ByteStem(stem, nn.ReLU(), mean)(frames)
    torch.testing.assert_close(found, stem(pixels).relu(), rtol=1e-4, atol=1e-3)
    assert found.shape[2] * stem.stride[0] == 24


def test_the_colour_around_the_image_is_rounded():
    """Of 0.4 the byte is 0: each of the five weights outside of the image in a corner makes a difference of 0.4."""
    stem = nn.Conv2d(3, 1, 3, 2, 1).requires_grad_(False)
    stem.weight.fill_(1 / 3)
    stem.bias.fill_(10.0)
    frames = torch.zeros(1, 4, 4, 3, dtype=torch.uint8)
    mean = (0.4 / 255,) * 3
    pixels = torch.full((1, 3, 4, 4), -0.4)
    exact, found = stem(pixels), ByteStem(stem, nn.Identity(), mean)(frames)
    torch.testing.assert_close((exact - found)[0, 0], torch.tensor([[2.0, 1.2], [1.2, 0.0]]), rtol=0, atol=1e-4)
