"""Findings are pasted singly, whole and softly, into windows without any where there are some."""

import numpy as np
import pytest
import torch
from oracle import paste as oracle

from foveal.data.augment import Variation
from foveal.data.paste import Piece, corner, mean, pasted, piece, put, soft
from foveal.runtime.components import components


def within(inside, reach):
    """Which pixels are at most so far away, along rows and columns."""
    return torch.nn.functional.max_pool2d(inside[None].float(), 2 * reach + 1, 1, reach)[0] > 0


FREE = Variation(upside_down=True, transposed=True)


def two_windows(side=41):
    """A bright L of class 2 and a dark bar of class 3 on grey, beside an empty darker window."""
    images, labels = torch.full((2, 3, side, side), 0.5), torch.zeros(2, side, side, dtype=torch.long)
    labels[0, 5:17, 7:11], labels[0, 13:17, 7:19], labels[0, 30:34, 20:33] = 2, 2, 3
    images[0, :, labels[0] == 2], images[0, :, labels[0] == 3] = 0.7, 0.35
    images[1] = 0.3
    return images, labels


@pytest.mark.parametrize(("number", "bright"), [(0, 0.5), (1, 0.15)])
def test_findings_keep_their_contrast(number, bright):
    """0.2 brighter, or 0.15 darker, than what is around, and that stays as it is."""
    images, labels = two_windows()
    found = components(labels[0].numpy())
    for seed in range(20):
        torch.manual_seed(seed)
        image, truth = images[1].clone(), labels[1].clone()
        what = piece(images[0], labels[0], found, number, FREE)
        put(image, truth, what, 2, *corner(what, 41))
        inside = truth == 2
        assert inside.sum() == what.mask.sum()
        assert image[0][inside].median().item() == pytest.approx(bright, abs=0.02)
        assert (image[:, ~within(inside, 2)] == 0.3).all()


def test_all_findings_of_a_batch_are_pasted_some_time():
    images, labels = two_windows()
    shown = set()
    for seed in range(20):
        torch.manual_seed(seed)
        shown |= set(pasted(images, labels, 1.0, FREE)[1][1].unique().tolist())
    assert shown == {0, 2, 3}


def test_what_is_put_equals_loops():
    for seed in range(30):
        draw = np.random.default_rng(seed)
        image, labels = draw.random((2, 23, 23)), draw.choice([0, 0, 0, 0, 1, 255], (23, 23))
        height, width = draw.integers(5, 15, 2)
        mask = np.zeros((height, width), bool)
        mask[2 : 2 + draw.integers(1, height - 3), 1 : 1 + draw.integers(1, width - 3)] = True
        free, finding = (draw.random((height, width)) < 0.7) & ~mask, draw.random((2, height, width))
        what = Piece(
            *(torch.from_numpy(one) for one in (finding.astype(np.float32), mask, free)), (False, False), (False, False)
        )
        # part of what is around it may lie outside, the finding not
        top, left = int(draw.integers(-2, 23 - height + 2)), int(draw.integers(-1, 23 - width + 2))
        inside = mask[max(0, -top) : 23 - top, max(0, -left) : 23 - left].sum() == mask.sum()
        if not inside:
            continue
        wanted, truth = image.tolist(), labels.tolist()
        oracle.put(wanted, truth, finding.tolist(), mask.tolist(), free.tolist(), 4, top, left)
        found, found_labels = torch.from_numpy(image).float(), torch.from_numpy(labels)
        put(found, found_labels, what, 4, top, left)
        assert found_labels.tolist() == truth
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_the_edge_is_soft_over_two_pixels():
    mask = torch.zeros(17, 17, dtype=torch.bool)
    mask[8, 8] = True
    alpha, ring = soft(mask)
    assert alpha[8, 4:13].tolist() == pytest.approx([0, 0, 1 / 3, 2 / 3, 1, 2 / 3, 1 / 3, 0, 0])
    assert ring[8].tolist() == [2 < abs(place - 8) <= 6 for place in range(17)]


def test_a_finding_lands_whole_wherever_it_lands():
    """Nothing wraps round a border: what lands is in one piece, and between half and twice as long."""
    images, labels = two_windows()
    found = components(labels[0].numpy())
    corners = []
    for seed in range(60):
        torch.manual_seed(seed)
        what = piece(images[0], labels[0], found, 0, FREE)
        truth = torch.zeros(41, 41, dtype=torch.long)
        put(images[1].clone(), truth, what, 2, *corner(what, 41))
        landed = components(truth.numpy())
        assert len(landed) == 1
        assert landed.area[0] == what.mask.sum()
        x0, y0, x1, y1 = landed.box[0].tolist()
        assert 5 <= max(x1 - x0, y1 - y0) <= 25
        assert abs((x1 - x0) - (y1 - y0)) <= 1
        corners.append((x0, y0, x1, y1))
    low, high = np.min(corners, 0), np.max(corners, 0)
    assert (low[:2] <= 2).all()
    assert (high[2:] >= 39).all()


@pytest.mark.parametrize(("v", "several"), [(None, 1), (Variation(), 2), (Variation(upside_down=True), 4), (FREE, 8)])
def test_findings_are_turned_as_windows_may_be(v, several):
    """An L has eight ways to lie, of which gravity leaves two."""
    images, labels = two_windows()
    labels[0] = 0
    labels[0, 5:17, 7:11], labels[0, 13:17, 7:15] = 2, 2
    found = components(labels[0].numpy())
    ways = set()
    for seed in range(80):
        torch.manual_seed(seed)
        mask = piece(images[0], labels[0], found, 0, v).mask
        rows, columns = (mask.any(axis).nonzero() for axis in (1, 0))
        mask = mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        high, halves = mask.shape[0] > mask.shape[1], (mask.float().tensor_split(2, axis) for axis in (0, 1))
        ways.add((high, *(bool(one.sum() > other.sum()) for one, other in halves)))
    assert len(ways) == several


def test_what_a_border_cuts_off_lies_at_a_border_again():
    """The side that was cut: ten pixels wide there, and two at its other end."""
    images, labels = torch.rand(2, 3, 41, 41), torch.zeros(2, 41, 41, dtype=torch.long)
    labels[0, 11:21, :8], labels[0, 15:17, 8:12] = 1, 1
    found = components(labels[0].numpy())
    sides = set()
    for seed in range(60):
        torch.manual_seed(seed)
        truth = torch.zeros(41, 41, dtype=torch.long)
        what = piece(images[0], labels[0], found, 0, FREE)
        put(images[1].clone(), truth, what, 1, *corner(what, 41))
        at = [int(line.sum()) for line in (truth[0], truth[-1], truth[:, 0], truth[:, -1])]
        assert max(at) >= 5
        sides.add(int(np.argmax(at)))
    assert sides == {0, 1, 2, 3}
    torch.manual_seed(0)
    box = components(pasted(images, labels, 1.0, None)[1][1].numpy()).box
    assert (box[:, 0] == 0).all()


def test_a_finding_from_border_to_border_stays_as_long():
    images, labels = torch.rand(2, 3, 31, 31), torch.zeros(2, 31, 31, dtype=torch.long)
    labels[0, :, 4:10] = 1
    for seed in range(10):
        torch.manual_seed(seed)
        _, truth = pasted(images, labels, 1.0, FREE)
        lines = (truth[1] == 1).all(0).sum() + (truth[1] == 1).all(1).sum()
        assert lines >= 6


def test_thin_and_small_findings_are_not_shrunk_to_nothing():
    images, labels = two_windows()
    labels[0] = 0
    labels[0, 3:23, 9], labels[0, 30:33, 30:33] = 1, 2
    found = components(labels[0].numpy())
    for seed in range(30):
        torch.manual_seed(seed)
        assert piece(images[0], labels[0], found, 0).mask.sum() >= 20
        assert piece(images[0], labels[0], found, 1).mask.sum() >= 9


def test_a_net_of_thin_lines_that_loses_all_of_its_pixels_is_left_out():
    labels = torch.zeros(2, 40, 40, dtype=torch.long)
    labels[0, 4:24:2, 4:24] = labels[0, 4:24, 4:24:2] = 1
    images = torch.rand(2, 3, 40, 40)
    none = 0
    for seed in range(200):
        torch.manual_seed(seed)
        found = pasted(images, labels, 1.0)[1]
        none += not bool((found[1] > 0).any())
    assert none < 100


def test_windows_without_findings_are_preferred():
    torch.manual_seed(0)
    images, labels = torch.rand(400, 1, 16, 16), torch.zeros(400, 16, 16, dtype=torch.long)
    labels[:200, 2:5, 2:5] = 1
    images, truth = pasted(images, labels, 0.8)
    changed = (truth != labels).flatten(1).any(1)
    assert 0.7 < changed[200:].float().mean() < 0.9
    assert 0.1 < changed[:200].float().mean() < 0.3  # a quarter of it, less what lies on itself


def test_rare_classes_are_pasted_as_often_as_others():
    images, labels = torch.rand(2, 1, 64, 64), torch.zeros(2, 64, 64, dtype=torch.long)
    for row in range(2, 60, 6):
        labels[0, row : row + 3, 2:5] = 1
    labels[0, 2:5, 40:43] = 2
    counts = torch.zeros(3)
    for seed in range(60):
        torch.manual_seed(seed)
        counts += pasted(images, labels, 1.0)[1][1].flatten().bincount(minlength=3).clamp(max=1)
    assert 0.5 < counts[2] / counts[1] < 2


def test_a_finding_that_fills_its_window_stays_there():
    images, labels = torch.rand(2, 3, 8, 8), torch.zeros(2, 8, 8, dtype=torch.long)
    labels[0] = 1
    found, truth = pasted(images, labels, 1.0)
    assert torch.equal(found, images)
    assert torch.equal(truth, labels)


@pytest.mark.parametrize("labels", [0, 255])
def test_without_findings_nothing_is_pasted(labels):
    images, maps = torch.rand(2, 3, 8, 8), torch.full((2, 8, 8), labels)
    found, truth = pasted(images, maps, 1.0)
    assert torch.equal(found, images)
    assert torch.equal(truth, maps)


def test_the_same_seed_pastes_the_same():
    images, labels = two_windows()
    both = []
    for _ in range(2):
        torch.manual_seed(5)
        both.append(pasted(images, labels, 1.0, FREE))
    assert torch.equal(both[0][0], both[1][0])
    assert torch.equal(both[0][1], both[1][1])
    assert (both[0][1][1] != 0).any()
    assert (labels[1] == 0).all()  # what came in is as it was


def test_a_mean_of_nothing_is_that_of_all():
    image = torch.rand(3, 4, 5)
    assert torch.equal(mean(image, torch.zeros(4, 5, dtype=torch.bool)), image.mean((1, 2)))
