"""What an augmentation does to windows after they were cut: labels stay with their pixels."""

import pytest
import torch

from foveal.data.augment import CORNERS, VARIATIONS, Variation
from foveal.tasks.segment.module import varied


def windows(count=40, side=20):
    """Each of a grey and a label of its own."""
    number = torch.arange(count)
    labels = number[:, None, None].expand(count, side, side).contiguous()
    return (0.2 + labels[:, None] / 100).expand(-1, 3, -1, -1).contiguous(), labels


@pytest.mark.parametrize("v", [None, Variation()])
def test_without_a_variation_windows_stay_as_they_are(v):
    images, labels = windows()
    found, truth = varied(images, labels, v)
    torch.testing.assert_close(found, images)
    assert torch.equal(truth, labels)


def test_what_is_hidden_keeps_its_labels():
    images, labels = windows()
    torch.manual_seed(0)
    found, truth = varied(images, labels, Variation(hide=0.2, hidden=0.5))
    changed = ((found - images).abs() > 1e-6).any(1)
    assert torch.equal(truth, labels)
    assert 0.2 < changed.flatten(1).any(1).float().mean() < 0.8
    assert changed.float().mean((1, 2)).max() < 0.3


def test_a_corner_of_another_window_brings_its_labels():
    images, labels = windows()
    torch.manual_seed(0)
    found, truth = varied(images, labels, Variation(text=0.5))
    torch.testing.assert_close(found[:, 0], 0.2 + truth / 100)
    changed = truth != labels
    assert truth.dtype == labels.dtype
    for x0, y0, x1, y1 in CORNERS:
        corner = changed[:, round(20 * y0) : round(20 * y1), round(20 * x0) : round(20 * x1)].flatten(1)
        assert (corner.any(1) == corner.all(1)).all()
        assert 0.2 < corner.any(1).float().mean() < 0.8
    assert not changed[:, 5:15, 9:13].any()


@pytest.mark.parametrize("name", ["saturation", "hue", "grey"])
def test_colours_vary(name):
    images, labels = windows()
    images = images * torch.tensor([1.0, 0.7, 0.4])[:, None, None]
    torch.manual_seed(0)
    found, truth = varied(images, labels, Variation(**{name: 0.4}))
    assert (found - images).abs().max() > 0.02
    assert torch.equal(truth, labels)


@pytest.mark.parametrize("name", sorted(VARIATIONS))
def test_the_same_seed_varies_the_same(name):
    images, labels = windows(6)
    both = []
    for _ in range(2):
        torch.manual_seed(2)
        both.append(varied(images, labels, VARIATIONS[name]))
    assert torch.equal(both[0][0], both[1][0])
    assert torch.equal(both[0][1], both[1][1])
    assert both[0][0].min() >= 0
    assert both[0][0].max() <= 1
