"""The loss of which classes an image shows: by hand, and against torch."""

import math

import pytest
import torch
from torch.nn import functional as F

from foveal.errors import FovealError
from foveal.losses.presence import presence_loss, present

LABELS = torch.tensor([[[0, 1, 1], [0, 255, 0]], [[3, 3, 3], [3, 1, 3]], [[255] * 3] * 2, [[0] * 3] * 2])


def test_present_by_hand():
    assert present(LABELS, 4).tolist() == [
        [True, True, False, False],
        [False, True, False, True],
        [False] * 4,
        [True, False, False, False],
    ]


def test_it_is_binary_cross_entropy_of_the_images_that_are_labelled():
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wanted = torch.tensor([[1, 0, 0], [1, 0, 1], [0, 0, 0]], dtype=torch.float64)
    expected = F.binary_cross_entropy_with_logits(logits[[0, 1, 3]], wanted)
    torch.testing.assert_close(presence_loss(logits, LABELS), expected)
    assert presence_loss(torch.zeros(4, 3), LABELS).item() == pytest.approx(math.log(2))


def test_gradients():
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: presence_loss(x, LABELS), logits)
    (gradient,) = torch.autograd.grad(presence_loss(logits, LABELS), logits)
    assert (gradient[2] == 0).all()
    assert (gradient[[0, 1, 3]] != 0).all()


def test_nothing_labelled_is_no_loss_and_no_gradient():
    logits = torch.randn(4, 3, requires_grad=True)
    value = presence_loss(logits, torch.full_like(LABELS, 255))
    assert value.item() == 0
    assert (torch.autograd.grad(value, logits)[0] == 0).all()


def test_half_precision_logits_are_widened_and_finite():
    logits = torch.tensor([[300.0, -300.0, 0.5]] * 4).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        value = presence_loss(logits, LABELS)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, presence_loss(logits.float(), LABELS))
    assert presence_loss(logits.to("meta"), LABELS.to("meta")).shape == ()  # no number of a tensor is read


def test_bad_input():
    with pytest.raises(FovealError, match=r"presence: expected logits \(B, K\) of 4 images"):
        presence_loss(torch.zeros(3, 3), LABELS)
