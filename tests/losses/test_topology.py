"""Losses of thin things: against loops and MONAI, by hand, and what they ask for."""

import numpy as np
import pytest
import torch
from monai.losses.cldice import SoftclDiceLoss, soft_skel
from oracle import segmentation as pixels
from oracle import topology as oracle

from foveal.errors import FovealError
from foveal.losses.topology import _dilated, _eroded, label_tubes, skeleton_recall, soft_cldice, soft_skeleton
from foveal.runtime.skeleton import tubes as numpy_tubes


def some(seed=0, shape=(2, 9, 11), dtype=torch.float64):
    """Logits of four classes; a wide bar of class 1, a line of class 2, nothing of class 3."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(shape[0], 4, *shape[1:], generator=generator, dtype=dtype) * 2
    labels = torch.zeros(shape, dtype=torch.int64)
    labels[0, 1:6, 2:9], labels[1, 7] = 1, 2
    labels[:, 0, :3] = 255
    return logits.requires_grad_(), labels


def confident(labels, classes=4, by=40.0):
    """Logits that are sure of these labels."""
    known = labels.clamp(max=classes - 1)
    return (torch.nn.functional.one_hot(known, classes).double() * by).movedim(-1, 1)


LOSSES = {
    "clDice": lambda x, y: soft_cldice(x, y, [1, 2, 3]),
    "clDice, five steps": lambda x, y: soft_cldice(x, y, [2], 5),
    "recall": lambda x, y: skeleton_recall(x, y, [1, 2, 3]),
}
every = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())


@pytest.mark.parametrize("iterations", [0, 1, 3])
def test_soft_skeleton_equals_loops_and_monai(iterations):
    maps = torch.rand(2, 3, 7, 11, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = soft_skeleton(maps, iterations)
    wanted = [[oracle.soft_skeleton(one, iterations) for one in image] for image in maps.tolist()]
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64))
    torch.testing.assert_close(found, soft_skel(maps, iterations))


def test_soft_skeleton_by_hand():
    """Of a bar three pixels wide, the line in its middle; a line stays."""
    bar = torch.zeros(1, 1, 7, 11)
    bar[..., 2:5, 1:10] = 1
    found = soft_skeleton(bar, 3)[0, 0]
    assert found[3, 2:9].tolist() == [1] * 7
    assert found[[0, 1, 5, 6]].sum() == 0
    line = torch.zeros(1, 1, 7, 11)
    line[..., 3, :] = 1
    torch.testing.assert_close(soft_skeleton(line, 3), line)


def test_gradient_of_the_extremes_is_that_of_pooling():
    """On maps without equal neighbours; MONAI's skeleton pools."""
    maps = torch.rand(2, 2, 9, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    weight = torch.rand(2, 2, 9, 7, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    mine, theirs = (torch.autograd.grad((of(maps, 3) * weight).sum(), maps)[0] for of in (soft_skeleton, soft_skel))
    torch.testing.assert_close(mine, theirs)


def test_equal_neighbours_share_no_gradient_twice():
    maps = torch.full((1, 1, 5, 5), 0.5, dtype=torch.float64, requires_grad=True)
    for of in (_eroded, _dilated):
        (gradient,) = torch.autograd.grad(of(maps).sum(), maps)
        assert gradient.sum() == 25


@pytest.mark.parametrize("iterations", [1, 3])
def test_cldice_equals_loops(iterations):
    logits, labels = some()
    known = (labels != 255).double()
    p = logits.softmax(1) * known[:, None]
    each = [
        oracle.soft_cldice(p[:, k].tolist(), (labels == k).double().tolist(), iterations) for k in (1, 2)
    ]  # class 3 is nowhere
    assert soft_cldice(logits, labels, [1, 2, 3], iterations).item() == pytest.approx(sum(each) / 2)
    assert soft_cldice(logits, labels, [2], iterations).item() == pytest.approx(each[1])


def test_cldice_equals_monai():
    """Of one image and one class: theirs is of all classes as one, and the mean over images."""
    logits, labels = some()
    labels = labels[:1].clamp(max=3)
    p = logits[:1].softmax(1)[:, 1:2]
    theirs = SoftclDiceLoss(iter_=3, smooth=1e-12)(p, (labels[:, None] == 1).double())
    torch.testing.assert_close(soft_cldice(logits[:1], labels, [1], 3), theirs)


@pytest.mark.parametrize("radius", [0.0, 1.0, 2.0])
def test_recall_equals_loops(radius):
    logits, labels = some()
    tubes = numpy_tubes(np.where(labels == 255, 0, labels), radius)
    p = pixels.softmax(logits.tolist())
    each = [oracle.skeleton_recall([one[k] for one in p], (tubes == k).astype(int).tolist()) for k in (1, 2)]
    assert skeleton_recall(logits, labels, [1, 2, 3], radius=radius).item() == pytest.approx(sum(each) / 2)
    made = label_tubes(labels, radius)
    np.testing.assert_array_equal(made, tubes)
    torch.testing.assert_close(skeleton_recall(logits, labels, [2], made), torch.tensor(each[1], dtype=torch.float64))


def test_a_gap_costs_more_than_a_pixel_beside():
    """What these losses are for: a line that is broken is worse than one that is too wide."""
    labels = torch.zeros(1, 15, 17, dtype=torch.int64)
    labels[0, 7] = 1
    broken, wide = labels.clone(), labels.clone()
    broken[0, 7, 5:11] = 0
    wide[0, 6, 5:11] = 1
    for loss in (lambda x: soft_cldice(x, labels, [1]), lambda x: skeleton_recall(x, labels, [1])):
        right = loss(confident(labels, 2)).item()
        assert right == pytest.approx(0, abs=1e-6)
        assert loss(confident(broken, 2)).item() > loss(confident(wide, 2)).item() + 0.05


@every
def test_gradients(loss):
    logits, labels = some()
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), logits, fast_mode=True)
    (gradient,) = torch.autograd.grad(loss(logits, labels), logits)
    assert gradient.abs().sum() > 0
    assert (gradient[(labels == 255)[:, None].expand_as(gradient)] == 0).all()


@every
@pytest.mark.parametrize("label", [0, 255])
def test_without_the_classes_there_is_no_loss_and_no_gradient(loss, label):
    logits, labels = some()
    value = loss(logits, torch.full_like(labels, label))
    (gradient,) = torch.autograd.grad(value, logits)
    assert value.item() == 0
    assert (gradient == 0).all()


@every
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_half_precision_logits_are_widened_and_finite(loss, scale):
    logits, labels = some(dtype=torch.float32)
    half = (logits.detach() * scale).bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(half, labels)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, loss(half.float(), labels))
    assert torch.autograd.grad(value, half)[0].isfinite().all()


def test_no_number_of_a_tensor_is_read():
    """So that a GPU can record a step, with tubes that were made before it."""
    logits, labels = (one.to("meta") for one in some(dtype=torch.float32))
    assert soft_cldice(logits, labels, [1, 2]).shape == ()
    assert skeleton_recall(logits, labels, [1, 2], labels).shape == ()


def test_bad_input():
    logits, labels = some()
    for loss in (soft_cldice, skeleton_recall):
        for classes in ([], [0], [4]):
            with pytest.raises(
                FovealError, match="the classes of a loss of thin things: expected some of the labels 1…3"
            ):
                loss(logits, labels, classes)
        with pytest.raises(FovealError, match="logits and labels"):
            loss(logits, labels[1:], [1])
    with pytest.raises(FovealError, match="tubes: expected the shape of labels"):
        skeleton_recall(logits, labels, [1], labels[1:])
