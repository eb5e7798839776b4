"""The step of training: loss, weights of classes, the average that is judged, and what is chosen by."""

import types

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torchmetrics.functional.classification import multiclass_accuracy, multilabel_average_precision

from foveal.data.batches import Batch
from foveal.errors import FovealError
from foveal.models.zoo import create
from foveal.tasks.classify.module import Classify, class_weight, is_backbone, log_prior
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.train.average import Average
from foveal.train.schedule import cosine

COUNTS = np.array([2, 3, 11, 1, 7])


def task_of(multi_label=False, counts=COUNTS, **settings):
    recipe = ClassifyRecipe(size=32, settings={"image": 32, "patch": 8}, **settings)
    torch.manual_seed(0)
    model = create("icam-30k", classes=len(counts), image=32, patch=8)
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.25, 0.5)
    return Classify(
        model, recipe, classes=len(counts), multi_label=multi_label, steps=19, counts=counts, images=int(counts.sum()), mean=mean, std=std
    )


def some(count=17, classes=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, classes, generator=generator) * 3, torch.randint(0, classes, (count,), generator=generator)


ALL = torch.ones(17, dtype=torch.bool)


@pytest.mark.parametrize("multi_label", [False, True])
def test_margin(multi_label):
    """A model that knows nothing but how frequent the classes are has logits 0 at best: their shares are in the prior."""
    prior = log_prior(COUNTS, multi_label, 24)
    shares = (COUNTS + 1) / (26 if multi_label else 29)
    torch.testing.assert_close((prior.sigmoid() if multi_label else prior.exp()).numpy(), shares.astype(np.float32))
    task = task_of(multi_label, balance="margin")
    labels = torch.repeat_interleave(torch.arange(5), torch.from_numpy(COUNTS))
    targets = torch.nn.functional.one_hot(labels, 5).float()
    logits = torch.zeros(24, 5, requires_grad=True)
    task.loss(logits, targets, torch.ones(24)).backward()
    assert logits.grad.sum(0).abs().max() < (0.01 if multi_label else 0.06)  # one image more of each class is in the prior
    plain = torch.zeros(24, 5, requires_grad=True)
    task_of(multi_label).loss(plain, targets, torch.ones(24)).backward()
    assert plain.grad.sum(0).abs().max() > (0.05 if multi_label else 0.2)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("counts", [[400, 12], [400, 80, 0], [5, 5, 500]])
@pytest.mark.parametrize("multi_label", [False, True])
def test_with_a_margin_what_can_be_told_apart_is_told_apart(multi_label, counts, smoothing):
    """Each class's image by itself, logits free: at the optimum of the loss every one of them has the right answer."""
    counts = np.array(counts)
    task = task_of(multi_label, counts, balance="margin", smoothing=smoothing)
    there = np.flatnonzero(counts)
    targets = torch.eye(len(counts))[there]
    logits = torch.zeros_like(targets, requires_grad=True)
    fit = torch.optim.LBFGS([logits], max_iter=200, line_search_fn="strong_wolfe")

    def closure():
        fit.zero_grad()
        loss = task.loss(logits, targets, torch.ones(len(there)))
        loss.backward()
        return loss

    fit.step(closure)
    said = logits.detach()
    assert ((said > 0).float() == targets).all() if multi_label else said.argmax(1).tolist() == there.tolist()


@pytest.mark.parametrize("smoothing", [0.0, 0.13])
def test_one_label_is_cross_entropy(smoothing):
    logits, labels = some()
    task = task_of(smoothing=smoothing)
    torch.testing.assert_close(
        task.loss(logits, F.one_hot(labels, 5).float(), ALL), F.cross_entropy(logits, labels, label_smoothing=smoothing)
    )
    soft = torch.softmax(some(seed=1)[0], 1)  # as mixup makes them
    torch.testing.assert_close(task.loss(logits, soft, ALL), F.cross_entropy(logits, soft, label_smoothing=smoothing))


@pytest.mark.parametrize("smoothing", [0.0, 0.13])
def test_several_labels_is_binary_cross_entropy(smoothing):
    logits, _ = some()
    marks = (some(seed=1)[0] > 1).float()
    aims = marks * (1 - smoothing) + smoothing / 2
    expected = F.binary_cross_entropy_with_logits(logits, aims)
    torch.testing.assert_close(task_of(multi_label=True, smoothing=smoothing).loss(logits, marks, ALL), expected)


def test_class_weights():
    weight = class_weight(COUNTS)
    torch.testing.assert_close(weight * torch.from_numpy(COUNTS), torch.full((5,), 24 / 5))  # every class weighs the same in sum
    assert class_weight(np.array([4, 0, 4])).tolist() == [1, 1, 1]  # a class that has no image does not move the others
    logits, labels = some()
    targets = F.one_hot(labels, 5).float()
    task = task_of(balance="weights", smoothing=0.0)
    # torch divides by the weights that happen to be in the batch; over the whole set the two are one
    summed = F.cross_entropy(logits, labels, weight=weight, reduction="sum") / 17
    torch.testing.assert_close(task.loss(logits, targets, ALL), summed)
    # an image counts as its class weighs, smoothing or not
    smooth = task_of(balance="weights", smoothing=0.1).loss(logits, targets, ALL)
    each = F.cross_entropy(logits, labels, label_smoothing=0.1, reduction="none") * weight[labels]
    torch.testing.assert_close(smooth, each.mean())


def test_class_weights_of_several_labels():
    logits, _ = some()
    marks = (some(seed=1)[0] > 1).float()
    task = task_of(multi_label=True, balance="weights", smoothing=0.0)
    torch.testing.assert_close(
        task.loss(logits, marks, ALL), F.binary_cross_entropy_with_logits(logits, marks, pos_weight=class_weight(COUNTS))
    )


def test_what_could_not_be_read_has_no_weight():
    logits, labels = some()
    good = torch.arange(17) % 3 != 1
    task = task_of(smoothing=0.0)
    loss = task.loss(logits, F.one_hot(labels, 5).float(), good)
    torch.testing.assert_close(loss, F.cross_entropy(logits[good], labels[good]))
    assert task.loss(logits, F.one_hot(labels, 5).float(), torch.zeros(17, dtype=torch.bool)) == 0


def test_score_against_torchmetrics():
    logits, labels = some(41)
    expected = multiclass_accuracy(logits, labels, 5, average="macro")
    assert task_of().score(logits, labels) == pytest.approx(float(expected), abs=1e-6)
    marks = (some(41, seed=3)[0] > 1).long()
    expected = multilabel_average_precision(logits, marks, 5)
    assert task_of(multi_label=True).score(logits, marks.float()) == pytest.approx(float(expected), abs=1e-6)
    assert task_of(multi_label=True).score(logits, torch.zeros(41, 5)) == 0.0  # nothing to find: no better than anything


def test_diverged():
    logits, labels = some()
    logits[3, 2] = float("nan")
    with pytest.raises(FovealError, match="expected finite numbers, got NaN or infinity; lower --lr"):
        task_of().score(logits, labels)


def a_batch(count=7):
    images = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(9))
    return Batch(images, torch.arange(count) % 5, torch.arange(count) * 2, torch.ones(count, dtype=torch.bool))


def test_pictures_are_normalised():
    task, batch = task_of(), a_batch()
    seen = task.normalised(task.images(batch))
    expected = (batch.images[:, 2].float() / 255 - 0.3) / 0.5
    torch.testing.assert_close(seen[:, 2], expected)
    task.resident = torch.randint(0, 256, (30, 32, 32, 3), dtype=torch.uint8)
    torch.testing.assert_close(task.images(batch)[3], task.resident[6].permute(2, 0, 1).float() / 255)


def test_a_slice_of_a_batch_may_be_empty():
    batch = Batch(*(part[:0] for part in a_batch()))
    assert task_of().logits(batch).shape == (0, 5)


def test_the_average_is_judged():
    assert task_of(ema=0.0).average is None
    task = task_of(ema=0.9)
    assert task.evaluated is task.average.module
    assert not any(parameter.requires_grad for parameter in task.evaluated.parameters())
    assert len(task.configure_optimizers()["optimizer"].param_groups[0]["params"]) < len(list(task.model.parameters()))


def test_average_by_hand():
    model = torch.nn.BatchNorm1d(1)
    average = Average(model, 0.5)
    expected = 1.0
    for step, value in enumerate((3.0, 7.0, 2.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 1.0)):
        with torch.no_grad():
            model.weight.fill_(value)
            model.running_mean.fill_(value)
            model.num_batches_tracked.fill_(int(value))
        average.update(model, step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
        assert average.module.weight.item() == pytest.approx(expected, rel=1e-6)
    assert decay == 0.5
    assert average.module.num_batches_tracked == 1
    assert average.module.running_mean.item() == pytest.approx(expected, rel=0.01)  # which began at 0


def test_no_decay_on_scales_and_shifts():
    task = task_of(decay=0.3, lr=0.01, warmup=0.2)
    made = task.configure_optimizers()
    decayed, free = made["optimizer"].param_groups
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.3, 0.0)
    assert all(parameter.dim() > 1 for parameter in decayed["params"])
    assert all(parameter.dim() <= 1 for parameter in free["params"])
    assert len(decayed["params"]) + len(free["params"]) == len(list(task.model.parameters()))
    scheduler = made["lr_scheduler"]["scheduler"]
    rates = []
    for _ in range(19):
        rates.append(decayed["lr"])
        made["optimizer"].step()
        scheduler.step()
    assert rates == pytest.approx([0.01 * cosine(step, 19, 4) for step in range(19)])


def test_a_step_is_a_function_of_seed_and_number(monkeypatch):
    losses = []
    for number, before in ((4, 1), (4, 2), (5, 1)):
        task = task_of(augment="strong", mixup=0.3, seed=7)
        task.log = lambda *args, **keywords: None
        task._trainer = types.SimpleNamespace(global_step=number, global_rank=0, world_size=1)
        monkeypatch.setattr(Classify, "global_step", property(lambda self: self._trainer.global_step))
        monkeypatch.setattr(Classify, "global_rank", property(lambda self: self._trainer.global_rank))
        torch.manual_seed(before)
        task.on_train_batch_start(a_batch(), 0)
        losses.append(task.training_step(a_batch(), 0).item())
    assert losses[0] == losses[1] != losses[2]


def test_what_sees_pixels_may_learn_more_slowly():
    task = task_of(backbone=0.2, lr=0.01, decay=0.3)
    rates = {}
    for group in task.configure_optimizers()["optimizer"].param_groups:
        for parameter in group["params"]:
            rates[id(parameter)] = group["initial_lr"]
    for name, parameter in task.model.named_parameters():
        assert rates[id(parameter)] == pytest.approx(0.002 if name.startswith("phi.") else 0.01)
    assert not is_backbone("net.classifier.1.weight")
    assert is_backbone("net.resnet.embedder.convolution.weight")
