"""Whether images have an up and a down, or a grain, is measured; turned in any way, they have neither."""

from types import SimpleNamespace

import numpy as np
import pytest

from foveal.data.direction import FEWEST, direction
from foveal.runtime.image import BadImage


def source(images, group=None):
    def image(index):
        if images[index] is None:
            raise BadImage("broken", "not an image")
        return images[index]

    return SimpleNamespace(image=image, group=group), np.arange(len(images))


def noisy(count, change, seed=0, side=40):
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        image = change(draw, draw.normal(120, 30, (side, side)))
        found.append(np.repeat(image.clip(0, 255).astype(np.uint8)[..., None], 3, 2))
    return found


def sky(draw, noise):
    return noise + np.linspace(60, -60, len(noise))[:, None]


def brushed(draw, noise):
    return noise * 0.2 + draw.normal(120, 40, (1, noise.shape[1]))


def turned(how):
    return lambda draw, noise: np.rot90(how(draw, noise), draw.integers(4))


@pytest.mark.parametrize(
    ("how", "has_up", "has_grain"),
    [
        (sky, True, True),
        (brushed, False, True),
        (lambda draw, noise: noise, False, False),
        (turned(sky), False, False),
        (turned(brushed), False, False),
    ],
)
def test_what_images_have_in_common(how, has_up, has_grain):
    found = direction(*source(noisy(96, how)))
    assert (found.images, found.has_up, found.has_grain) == (96, has_up, has_grain)


def test_a_view_that_comes_again_counts_once():
    images = noisy(4, turned(sky)) * 10
    assert direction(*source(images, np.arange(40) % 4)) is None
    assert direction(*source(images, np.arange(40))) is not None


def test_too_few_images_and_broken_or_even_ones_say_nothing():
    images = noisy(FEWEST, sky)
    assert direction(*source(images)).has_up
    assert direction(*source([*images[1:], None])) is None
    assert direction(*source([*images[1:], np.full((40, 40, 3), 7, np.uint8)])) is None
