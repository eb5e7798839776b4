"""Augmentation: gravity stays, values stay in 0…1, and all chance comes from torch's generator."""

import pytest
import torch

from foveal.data.augment import CORNERS, VARIATIONS, Variation, Vary, augmentation, cut_mixed, lit, mixed
from foveal.errors import FovealError


@pytest.fixture(scope="module", params=sorted(VARIATIONS))
def augment(request):
    return request.param, augmentation(request.param)


def some_images(count=13, side=24):
    return torch.rand(count, 3, side, side + 5, generator=torch.Generator().manual_seed(1))


def test_shape_range_and_chance(augment):
    name, module = augment
    images = some_images()
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


def test_water_stays_at_the_bottom_unless_there_is_none(augment):
    images = torch.full((29, 3, 32, 32), 0.2)
    images[:, :, 21:] = 0.8
    torch.manual_seed(2)
    varied = augment[1](images)
    below = (varied[:, :, 24:].mean((1, 2, 3)) > varied[:, :, :8].mean((1, 2, 3))).sum()
    assert 3 <= below <= 20 if augment[0] in ("surface", "turns", "free", "grain") else below == 29


def test_a_mirror_is_among_them(augment):
    images = torch.zeros(31, 3, 16, 16)
    images[..., :8] = 0.5
    torch.manual_seed(2)
    varied = augment[1](images)
    right = (varied[..., 8:].mean((1, 2, 3)) > varied[..., :8].mean((1, 2, 3))).sum()
    assert right == 0 if augment[0] == "none" else 5 <= right <= 26


def test_turns_move_pixels_and_change_none():
    images = torch.rand(64, 3, 7, 7, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(0)
    varied = augmentation("turns")(images)
    ways = [turned for one in (images, images.flip(3)) for k in range(4) for turned in [one.rot90(k, (2, 3))]]
    which = torch.stack([(way - varied).abs().amax((1, 2, 3)) < 1e-6 for way in ways])
    assert (which.sum(0) == 1).all()  # each image one of the eight, and
    assert which.any(1).all()  # each of the eight of some image


def test_a_window_lies_inside_and_has_its_share():
    # Two ramps tell where a pixel was: its row in one colour, its column in another.
    row, column = torch.meshgrid(torch.linspace(-1, 1, 65), torch.linspace(-1, 1, 65), indexing="ij")
    images = ((torch.stack([row, column, row]) + 1) / 2).expand(503, 3, 65, 65)
    torch.manual_seed(0)
    varied = Vary(Variation(crop=0.4, stretch=0.3))(images) * 2 - 1
    height, width = (varied[:, 0, -1, 0] - varied[:, 0, 0, 0]) / 2, (varied[:, 1, 0, -1] - varied[:, 1, 0, 0]).abs() / 2
    assert 0.36 < (height * width).min() < 0.45
    assert 0.95 < (height * width).max() <= 1.001
    assert 0.6 < (height * width).mean() < 0.75
    assert 1.3 < (height / width).max() < 1.36  # e^0.3
    assert varied[:, 0].amin() < -0.97  # up to the borders
    assert varied[:, 0].amax() > 0.97


def test_cut_mixed_by_area():
    images, targets = torch.arange(1.0, 7.0)[:, None, None, None].expand(6, 3, 20, 30), torch.eye(6)
    torch.manual_seed(3)
    varied, mixed_targets = cut_mixed(images, targets, 1.0)
    for number in range(6):
        shares = torch.tensor([(varied[number] == other + 1).float().mean() for other in range(6)])
        torch.testing.assert_close(mixed_targets[number], shares, rtol=1e-5, atol=1e-6)
    assert (mixed_targets.amax(1) < 1).any()
    untouched, same = cut_mixed(images, targets, 0.0)
    assert torch.equal(untouched, images)
    assert torch.equal(same, targets)
    torch.manual_seed(0)
    many = cut_mixed(images.repeat(150, 1, 1, 1), targets.repeat(150, 1), 0.3)[0]
    touched = (many != many[:, :, :1, :1]).flatten(1).any(1).float().mean()
    assert 0.15 < touched < 0.31  # a sixth of the partners are the image's like


def test_the_windows_of_cut_mixed_have_any_area_alike():
    torch.manual_seed(0)
    images = torch.arange(1999.0)[:, None, None, None].expand(1999, 1, 20, 30)
    varied, _ = cut_mixed(images, torch.zeros(1999, 1), 1.0)
    area = (varied != images).float().mean((1, 2, 3))
    # A side of √u, u in 0…1, of which the border leaves √u − u/4 on average: ∫ (√u − u/4)² du = 1/2 − 1/5 + 1/48.
    assert area.mean() == pytest.approx(77 / 240, abs=0.02)
    assert area.max() > 0.85


def test_noise():
    torch.manual_seed(0)
    noisy = Vary(Variation(noise=0.05))(torch.full((997, 3, 8, 8), 0.5)) - 0.5
    touched = noisy.flatten(1).abs().sum(1) > 0
    assert abs(touched.float().mean() - 1 / 3) < 0.05
    assert noisy[touched].std() == pytest.approx(0.05, rel=0.02)


def test_nothing_to_vary_is_the_mirror():
    images = some_images()
    torch.manual_seed(0)
    varied = Vary(Variation())(images)
    torch.testing.assert_close(
        torch.minimum((varied - images).abs().amax((1, 2, 3)), (varied - images.flip(3)).abs().amax((1, 2, 3))),
        torch.zeros(13),
    )


def test_a_shift_by_hand():
    """An image that is shifted shows at each place what was beside it: the middle of the drawn shifts is none,
    the farthest the reach.
    """
    ramp = torch.linspace(0, 1, 64).expand(401, 3, 64, 64)
    torch.manual_seed(0)
    slope = Vary(Variation(shift=0.1))(ramp)[:, 0, 32, 30:34]
    mirrored = slope[:, 3] < slope[:, 0]
    moved = torch.where(mirrored, 1 - slope[:, 1:3].mean(1), slope[:, 1:3].mean(1)) - 0.5
    assert 80 < mirrored.sum() < 320
    assert 0.09 < moved.abs().max() < 0.105
    assert abs(moved.mean()) < 0.01


def test_zoom_and_turn_keep_the_middle():
    spot = torch.zeros(50, 3, 33, 33)
    spot[:, :, 15:18, 15:18] = 1
    torch.manual_seed(0)
    seen = Vary(Variation(turn=40, zoom=0.3, shear=0.2))(spot)
    assert (seen[:, :, 16, 16] > 0.99).all()
    assert seen.sum((1, 2, 3)).std() > 1  # some nearer, some farther


def test_hidden():
    torch.manual_seed(0)
    under = (Vary(Variation(hide=0.2, hidden=0.6))(torch.full((800, 3, 40, 40), 0.5)) != 0.5).any(1)
    share = under.flatten(1).float().mean(1)
    assert share.max() < 0.23
    assert 0.4 < (share > 0).float().mean() <= 0.62  # a very small one may fall between pixels


def test_text_comes_from_another_image():
    images = (torch.arange(1.0, 11.0) / 10)[:, None, None, None].expand(10, 3, 40, 40)
    torch.manual_seed(0)
    varied = Vary(Variation(text=1.0))(images)
    torch.testing.assert_close(varied[:, :, 16:24, 16:24], images[:, :, 16:24, 16:24])
    torch.testing.assert_close(varied[:, :, 0, 0], images.roll(1, 0)[:, :, 0, 0])
    assert len(CORNERS) == 4


def test_blur_and_grey():
    fine = (torch.arange(32) % 2).float().expand(300, 3, 32, 32)
    torch.manual_seed(0)
    spread = Vary(Variation(blur=1.5))(fine).std((1, 2, 3))
    assert 0.25 < (spread < 0.45).float().mean() < 0.35
    coloured = torch.tensor([0.2, 0.5, 0.8])[None, :, None, None].expand(300, 3, 4, 4)
    grey = Vary(Variation(grey=0.4))(coloured).std(1).amax((1, 2)) < 1e-6
    assert 0.3 < grey.float().mean() < 0.5


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
    images, aims = mixed(some_images(), torch.eye(13), 0.4)
    torch.testing.assert_close(aims.sum(1), torch.ones(13))
    assert images.min() >= 0
    assert images.max() <= 1


def test_unknown():
    with pytest.raises(FovealError, match="no augmentation is called 'pipes'; the nearest is 'pipe'"):
        augmentation("pipes")


def test_saturation_is_towards_grey_and_away_from_it(monkeypatch):
    images = torch.rand(3, 3, 5, 7, generator=torch.Generator().manual_seed(1))
    grey = (images * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(1, keepdim=True)
    factor = torch.tensor([-1.0, 0.0, 0.5])[:, None, None, None]  # none, the image's own, half as much again
    drawn = lambda images, reach, columns=1: factor if reach == 0.9 else torch.zeros(3, columns, 1, 1)  # noqa: E731
    monkeypatch.setattr("foveal.data.augment.even", drawn)
    torch.testing.assert_close(lit(images, Variation(saturation=0.9)), grey + (1 + factor) * (images - grey))
