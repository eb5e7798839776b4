"""Losses of label maps: against loops, torch and MONAI, by hand, and where nothing is labelled."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from monai.losses import DiceLoss
from oracle import segmentation as oracle
from torch.nn import functional as F

from foveal.errors import FovealError
from foveal.losses.segmentation import (
    RATIO,
    class_sums,
    dice,
    focal,
    label_cross_entropy,
    pixel_weights,
    soft_cross_entropy,
)

WEIGHTS = torch.tensor([0.5, 3.0, 7.0, 1.0], dtype=torch.float64)


def some(seed=0, unlabelled=0.2, absent=2, shape=(2, 3, 5), dtype=torch.float64):
    """Logits of four classes, one of which is nowhere; some pixels are unlabelled."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(shape[0], 4, *shape[1:], generator=generator, dtype=dtype) * 3
    labels = torch.randint(0, 4, shape, generator=generator)
    labels[labels == absent] = 0
    labels[torch.rand(shape, generator=generator) < unlabelled] = 255
    return logits.requires_grad_(), labels


LOSSES = {
    "cross-entropy": label_cross_entropy,
    "cross-entropy, smoothed and weighed": lambda x, y: label_cross_entropy(x, y, WEIGHTS.to(x), 0.1),
    "the hardest": lambda x, y: label_cross_entropy(x, y, hardest=0.3),
    "focal": focal,
    "focal, weighed, with a root": lambda x, y: focal(x, y, 0.5, WEIGHTS.to(x)),
    "dice": dice,
    "dice without background": lambda x, y: dice(x, y, background=False),
}
every = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())


@pytest.mark.parametrize("smoothing", [0.0, 0.13])
def test_cross_entropy_equals_loops_and_torch(smoothing):
    logits, labels = some()
    each = oracle.cross_entropies(oracle.softmax(logits.tolist()), labels.tolist(), WEIGHTS.tolist(), smoothing)
    found = label_cross_entropy(logits, labels, WEIGHTS, smoothing)
    assert found.item() == pytest.approx(sum(each) / len(each))
    plain = label_cross_entropy(logits, labels, smoothing=smoothing)
    torch.testing.assert_close(plain, F.cross_entropy(logits, labels, ignore_index=255, label_smoothing=smoothing))


def test_soft_labels_equal_loops_and_hard_ones():
    logits, labels = some(unlabelled=0.0)
    soft = some(seed=1)[0].detach().softmax(1)
    wanted = oracle.soft_cross_entropy(oracle.softmax(logits.tolist()), soft.tolist(), WEIGHTS.tolist())
    assert soft_cross_entropy(logits, soft, WEIGHTS).item() == pytest.approx(wanted)
    hard = F.one_hot(labels, 4).permute(0, 3, 1, 2).double()
    torch.testing.assert_close(soft_cross_entropy(logits, hard), label_cross_entropy(logits, labels))
    assert torch.autograd.gradcheck(lambda x: soft_cross_entropy(x, soft, WEIGHTS), logits)
    with pytest.raises(FovealError, match="logits and probability: expected"):
        soft_cross_entropy(logits, soft[:, :, :1])


def test_the_hardest_pixels_are_those_with_the_largest_loss():
    logits, labels = some(unlabelled=0.1)
    each = oracle.cross_entropies(oracle.softmax(logits.tolist()), labels.tolist(), WEIGHTS.tolist(), 0.0)
    worst = sorted(each)[-9:]  # 0.3 of 30 pixels
    assert label_cross_entropy(logits, labels, WEIGHTS, hardest=0.3).item() == pytest.approx(sum(worst) / 9)
    # fewer are labelled than the share asks for: all of them
    labels[:, 1:] = 255
    few = label_cross_entropy(logits, labels, WEIGHTS, hardest=0.9)
    torch.testing.assert_close(few, label_cross_entropy(logits, labels, WEIGHTS))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0, 3.7])
def test_focal_equals_loops(gamma):
    logits, labels = some()
    wanted = oracle.focal(oracle.softmax(logits.tolist()), labels.tolist(), WEIGHTS.tolist(), gamma)
    assert focal(logits, labels, gamma, WEIGHTS).item() == pytest.approx(wanted)
    torch.testing.assert_close(focal(logits, labels, 0.0), label_cross_entropy(logits, labels))


def test_focal_by_hand():
    """p = ¾ where it is right: ¹⁄₁₆ of −log ¾."""
    logits = torch.tensor([np.log(3.0), 0.0]).reshape(1, 2, 1, 1)
    assert focal(logits, torch.zeros(1, 1, 1, dtype=torch.int64)).item() == pytest.approx(-np.log(3 / 4) / 16)


@pytest.mark.parametrize("background", [True, False])
def test_dice_equals_loops(background):
    logits, labels = some()
    wanted = oracle.dice(oracle.softmax(logits.tolist()), labels.tolist(), background)
    assert dice(logits, labels, background=background).item() == pytest.approx(wanted)


@pytest.mark.parametrize("background", [True, False])
def test_dice_equals_monai_where_every_class_is_there(background):
    logits, labels = some(unlabelled=0, absent=-1, shape=(3, 7, 11))
    theirs = DiceLoss(
        include_background=background, to_onehot_y=True, softmax=True, batch=True, smooth_nr=0.0, smooth_dr=0.0
    )
    torch.testing.assert_close(dice(logits, labels, background=background), theirs(logits, labels[:, None]))


def test_dice_by_hand():
    """Two pixels, one of each label, both taken for class 1 with p = ¾."""
    logits = torch.tensor([0.0, np.log(3.0)]).reshape(1, 2, 1, 1).expand(1, 2, 1, 2)
    labels = torch.tensor([[[0, 1]]])
    of_background, of_class = 2 * 0.25 / (0.5 + 1), 2 * 0.75 / (1.5 + 1)
    assert dice(logits, labels).item() == pytest.approx(1 - (of_background + of_class) / 2)
    assert dice(logits, labels, background=False).item() == pytest.approx(1 - of_class)


@every
def test_gradients(loss):
    logits, labels = some()
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), logits)
    (gradient,) = torch.autograd.grad(loss(logits, labels), logits)
    assert (gradient[(labels == 255)[:, None].expand_as(gradient)] == 0).all()
    assert gradient.abs().sum() > 0


@every
def test_a_step_downhill_goes_down(loss):
    logits, labels = some()
    before = loss(logits, labels)
    (gradient,) = torch.autograd.grad(before, logits)
    assert loss(logits - 0.01 * gradient / gradient.abs().max(), labels) < before


@every
def test_nothing_labelled_is_no_loss_and_no_gradient(loss):
    logits, labels = some(unlabelled=1.0)
    value = loss(logits, labels)
    (gradient,) = torch.autograd.grad(value, logits)
    assert value.item() == 0
    assert (gradient == 0).all()


@every
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_half_precision_logits_are_widened_and_finite(loss, scale):
    logits, labels = some(dtype=torch.float32)
    wide = (logits.detach() * scale).bfloat16()
    for context in (torch.autocast("cpu", torch.bfloat16, enabled=False), torch.autocast("cpu", torch.bfloat16)):
        with context:
            half = wide.clone().requires_grad_()
            value = loss(half, labels)
            assert value.dtype == torch.float32
            torch.testing.assert_close(value, loss(wide.float(), labels))
        (gradient,) = torch.autograd.grad(value, half)
        assert gradient.isfinite().all()


@every
def test_no_number_of_a_tensor_is_read(loss):
    """So that a GPU can record a step: tensors without content will do."""
    logits, labels = (one.to("meta") for one in some(dtype=torch.float32))
    assert loss(logits, labels).shape == ()


def test_sums_of_many_pixels_are_exact():
    """Added one by one, the last million would be rounded by a percent and more."""
    values = torch.full((4, 1024, 1024), 0.99)
    labels = torch.zeros(4, 1024, 1024, dtype=torch.int64)
    assert class_sums(values, labels, 2)[0].item() == pytest.approx(0.99 * 4 * 1024**2, rel=1e-4)


def test_weights_by_hand():
    """Shares of ¹⁶⁄₂₁, ⁴⁄₂₁ and ¹⁄₂₁ of the labelled pixels: 1/√f as 1 : 2 : 4, and their mean 28/21."""
    areas = np.array([[10, 4, 0, 0, 99], [6, 0, 1, 0, 0]])
    np.testing.assert_allclose(pixel_weights(areas), [21 / 28, 42 / 28, 84 / 28, 1], rtol=1e-6)


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=7), st.integers(0, 10**6))
def test_weights_have_mean_one_over_pixels(pixels, unlabelled):
    weight = pixel_weights(np.array([[*pixels, unlabelled]])).numpy()
    pixels = np.array(pixels)
    there = pixels > 0
    assert np.isfinite(weight).all()
    assert (weight > 0).all()
    assert (weight[~there] == 1).all()
    if there.any():
        assert (weight * pixels).sum() / pixels.sum() == pytest.approx(1, rel=1e-5)
        order = np.argsort(pixels[there])
        assert (np.diff(weight[there][order]) <= 1e-6).all()  # the rarer, the heavier
        assert weight[there].max() <= RATIO * weight[there].min() * (1 + 1e-5)


def test_weights_are_cut_off():
    assert pixel_weights(np.array([[10**6, 1, 0]])).numpy().max() == pytest.approx(RATIO, rel=1e-3)


def test_weighed_loss_of_the_whole_set_is_that_of_its_parts():
    """Divided by pixels, not by weights: batches add up."""
    logits, labels = some(unlabelled=0, shape=(2, 3, 5))
    parts = [label_cross_entropy(logits[[one]], labels[[one]], WEIGHTS) for one in range(2)]
    torch.testing.assert_close(label_cross_entropy(logits, labels, WEIGHTS), sum(parts) / 2)


def test_bad_input():
    logits, labels = some()
    for loss in (label_cross_entropy, focal, dice):
        with pytest.raises(FovealError, match=r"logits and labels: expected \(B, K \+ 1, H, W\) and \(B, H, W\)"):
            loss(logits, labels[:, 1:])
    with pytest.raises(FovealError, match="hardest: expected a share"):
        label_cross_entropy(logits, labels, hardest=0.0)
    with pytest.raises(FovealError, match="gamma: expected at least 0"):
        focal(logits, labels, -1.0)
    with pytest.raises(FovealError, match=r"areas: expected \(N, K \+ 2\)"):
        pixel_weights(np.array([1, 2, 3]))
