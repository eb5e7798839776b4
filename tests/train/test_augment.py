"""Augmentation: gravity stays, values stay in 0…1, and all chance comes from torch's generator."""

import pytest
import torch

from foveal.errors import FovealError
from foveal.train.augment import AUGMENTATIONS, Noise, augmentation, mixed


@pytest.fixture(scope="module", params=sorted(AUGMENTATIONS))
def augment(request):
    return request.param, augmentation(request.param)


def pictures(count=13, side=24):
    return torch.rand(count, 3, side, side + 5, generator=torch.Generator().manual_seed(1))


def test_shape_range_and_chance(augment):
    name, module = augment
    images = pictures()
    torch.manual_seed(5)
    first = module(images)
    assert first.shape == images.shape
    assert first.dtype == torch.float32
    assert first.isfinite().all()
    assert first.min() >= 0
    assert first.max() <= 1
    torch.manual_seed(5)
    assert torch.equal(module(images), first)
    torch.manual_seed(6)
    assert torch.equal(module(images), first) == (name == "none")


def test_water_stays_at_the_bottom(augment):
    images = torch.full((29, 3, 32, 32), 0.2)
    images[:, :, 21:] = 0.8
    torch.manual_seed(2)
    varied = augment[1](images)
    assert (varied[:, :, 24:].mean((1, 2, 3)) > varied[:, :, :8].mean((1, 2, 3))).all()


def test_a_mirror_is_among_them(augment):
    images = torch.zeros(31, 3, 16, 16)
    images[..., :8] = 0.5
    torch.manual_seed(2)
    varied = augment[1](images)
    right = (varied[..., 8:].mean((1, 2, 3)) > varied[..., :8].mean((1, 2, 3))).sum()
    assert right == 0 if augment[0] == "none" else 5 <= right <= 26


def test_noise():
    torch.manual_seed(0)
    noisy = Noise(0.05, share=0.3)(torch.full((997, 3, 8, 8), 0.5)) - 0.5
    touched = noisy.flatten(1).abs().sum(1) > 0
    assert abs(touched.float().mean() - 0.3) < 0.05
    assert noisy[touched].std() == pytest.approx(0.05, rel=0.02)


def test_mixed_by_hand(monkeypatch):
    monkeypatch.setattr(torch.distributions.Beta, "sample", lambda self, shape: torch.tensor([0.25, 1.0, 0.5]))
    monkeypatch.setattr(torch, "randperm", lambda count, device: torch.tensor([2, 0, 1]))
    images = torch.tensor([0.0, 4.0, 8.0])[:, None, None, None].expand(3, 3, 2, 2)
    targets = torch.eye(3)
    mixture, aims = mixed(images, targets, 0.2)
    assert mixture[:, 0, 0, 0].tolist() == [6.0, 4.0, 6.0]
    assert aims.tolist() == [[0.25, 0, 0.75], [0, 1, 0], [0, 0.5, 0.5]]


def test_mixed_keeps_the_sum_of_targets():
    torch.manual_seed(3)
    images, aims = mixed(pictures(), torch.eye(13), 0.4)
    torch.testing.assert_close(aims.sum(1), torch.ones(13))
    assert images.min() >= 0
    assert images.max() <= 1


def test_unknown():
    with pytest.raises(FovealError, match="no augmentation is called 'pipes'; the nearest is 'pipe'"):
        augmentation("pipes")
