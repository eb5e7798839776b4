"""Losses of classifiers: against torch's own, by hand, and at their optimum."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from foveal.losses.classification import class_weights, classification_loss, distillation_loss, log_prior

COUNTS = np.array([2, 3, 11, 1, 7])


def loss_of(multi_label=False, counts=COUNTS, balance="none", smoothing=0.1):
    """The loss as a recipe would have it: a function of logits, targets and which of them are usable."""
    weight = class_weights(counts) if balance == "weights" else None
    prior = log_prior(counts, multi_label, int(counts.sum())) if balance == "margin" else None
    return partial(classification_loss, multi_label=multi_label, smoothing=smoothing, class_weight=weight, prior=prior)


def some(count=17, classes=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, classes, generator=generator) * 3, torch.randint(
        0, classes, (count,), generator=generator
    )


ALL = torch.ones(17, dtype=torch.bool)


@pytest.mark.parametrize("multi_label", [False, True])
def test_margin(multi_label):
    """A model that knows nothing but how frequent the classes are has logits 0 at best:
    their shares are in the prior.
    """
    prior = log_prior(COUNTS, multi_label, 24)
    shares = (COUNTS + 1) / (26 if multi_label else 29)
    torch.testing.assert_close((prior.sigmoid() if multi_label else prior.exp()).numpy(), shares.astype(np.float32))
    loss = loss_of(multi_label, balance="margin")
    labels = torch.repeat_interleave(torch.arange(5), torch.from_numpy(COUNTS))
    targets = torch.nn.functional.one_hot(labels, 5).float()
    logits = torch.zeros(24, 5, requires_grad=True)
    loss(logits, targets, torch.ones(24)).backward()
    # one image more of each class is in the prior
    assert logits.grad.sum(0).abs().max() < (0.01 if multi_label else 0.06)
    plain = torch.zeros(24, 5, requires_grad=True)
    loss_of(multi_label)(plain, targets, torch.ones(24)).backward()
    assert plain.grad.sum(0).abs().max() > (0.05 if multi_label else 0.2)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("counts", [[400, 12], [400, 80, 0], [5, 5, 500]])
@pytest.mark.parametrize("multi_label", [False, True])
def test_with_a_margin_what_can_be_separated_is_separated(multi_label, counts, smoothing):
    """Each class's image by itself, logits free: at the optimum of the loss every one of them has the right answer."""
    counts = np.array(counts)
    loss = loss_of(multi_label, counts, balance="margin", smoothing=smoothing)
    there = np.flatnonzero(counts)
    targets = torch.eye(len(counts))[there]
    logits = torch.zeros_like(targets, requires_grad=True)
    fit = torch.optim.LBFGS([logits], max_iter=200, line_search_fn="strong_wolfe")

    def closure():
        fit.zero_grad()
        value = loss(logits, targets, torch.ones(len(there)))
        value.backward()
        return value

    fit.step(closure)
    answers = logits.detach()
    assert ((answers > 0).float() == targets).all() if multi_label else answers.argmax(1).tolist() == there.tolist()


@pytest.mark.parametrize("smoothing", [0.0, 0.13])
def test_one_label_is_cross_entropy(smoothing):
    logits, labels = some()
    loss = loss_of(smoothing=smoothing)
    torch.testing.assert_close(
        loss(logits, F.one_hot(labels, 5).float(), ALL), F.cross_entropy(logits, labels, label_smoothing=smoothing)
    )
    soft = torch.softmax(some(seed=1)[0], 1)  # as mixup makes them
    torch.testing.assert_close(loss(logits, soft, ALL), F.cross_entropy(logits, soft, label_smoothing=smoothing))


@pytest.mark.parametrize("smoothing", [0.0, 0.13])
def test_several_labels_is_binary_cross_entropy(smoothing):
    logits, _ = some()
    marks = (some(seed=1)[0] > 1).float()
    smoothed = marks * (1 - smoothing) + smoothing / 2
    expected = F.binary_cross_entropy_with_logits(logits, smoothed)
    torch.testing.assert_close(loss_of(multi_label=True, smoothing=smoothing)(logits, marks, ALL), expected)


def test_class_weights():
    weight = class_weights(COUNTS)
    # every class weighs the same in sum
    torch.testing.assert_close(weight * torch.from_numpy(COUNTS), torch.full((5,), 24 / 5))
    # a class that has no image does not move the others
    assert class_weights(np.array([4, 0, 4])).tolist() == [1, 1, 1]
    logits, labels = some()
    targets = F.one_hot(labels, 5).float()
    loss = loss_of(balance="weights", smoothing=0.0)
    # torch divides by the weights that happen to be in the batch; over the whole set the two are one
    summed = F.cross_entropy(logits, labels, weight=weight, reduction="sum") / 17
    torch.testing.assert_close(loss(logits, targets, ALL), summed)
    # an image counts as its class weighs, smoothing or not
    smooth = loss_of(balance="weights", smoothing=0.1)(logits, targets, ALL)
    each = F.cross_entropy(logits, labels, label_smoothing=0.1, reduction="none") * weight[labels]
    torch.testing.assert_close(smooth, each.mean())


def test_class_weights_of_several_labels():
    logits, _ = some()
    marks = (some(seed=1)[0] > 1).float()
    loss = loss_of(multi_label=True, balance="weights", smoothing=0.0)
    torch.testing.assert_close(
        loss(logits, marks, ALL), F.binary_cross_entropy_with_logits(logits, marks, pos_weight=class_weights(COUNTS))
    )


def test_what_could_not_be_read_has_no_weight():
    logits, labels = some()
    good = torch.arange(17) % 3 != 1
    loss = loss_of(smoothing=0.0)
    torch.testing.assert_close(
        loss(logits, F.one_hot(labels, 5).float(), good), F.cross_entropy(logits[good], labels[good])
    )
    assert loss(logits, F.one_hot(labels, 5).float(), torch.zeros(17, dtype=torch.bool)) == 0


def test_distillation_is_cross_entropy_with_probabilities():
    logits, _ = some()
    teachers = some(seed=4)[0]
    good = torch.arange(17) % 4 != 2
    soft = teachers.softmax(1)
    torch.testing.assert_close(
        distillation_loss(logits, soft, good, multi_label=False), F.cross_entropy(logits[good], soft[good])
    )
    soft = teachers.sigmoid()
    expected = F.binary_cross_entropy_with_logits(logits[good], soft[good])
    torch.testing.assert_close(distillation_loss(logits, soft, good, multi_label=True), expected)


def test_half_precision_logits_are_widened():
    logits, labels = some()
    targets = F.one_hot(labels, 5).float()
    assert loss_of()(logits.bfloat16(), targets, ALL).dtype == torch.float32
