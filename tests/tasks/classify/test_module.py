"""The step of training: what is random in it, the moving average that is evaluated, the score, the optimizer,
and gradient checkpointing.
"""

import types

import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import multiclass_accuracy, multilabel_average_precision
from training.little import a_set, killed_and_resumed, same_run, trained

from foveal.data.batches import Batch
from foveal.errors import FovealError
from foveal.models.efficientnet_lite import EfficientNetLite
from foveal.models.zoo import create
from foveal.tasks.classify.kept import Kept
from foveal.tasks.classify.module import ClassifyModule
from foveal.tasks.classify.parts import blocks_of, is_backbone
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.training.average import Average
from foveal.training.harness import Machine
from foveal.training.schedule import cosine

COUNTS = np.array([2, 3, 11, 1, 7])


def task_of(multi_label=False, counts=COUNTS, attention="", model=None, **options):
    recipe = ClassifyRecipe(size=32, config={"image": 32, "patch": 8}, **options)
    torch.manual_seed(0)
    model = model or create("icam-30k", classes=len(counts), image=32, patch=8, attention=attention)
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.25, 0.5)
    return ClassifyModule(
        model,
        recipe,
        classes=len(counts),
        multi_label=multi_label,
        steps=19,
        counts=counts,
        images=int(counts.sum()),
        mean=mean,
        std=std,
    )


def some(count=17, classes=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, classes, generator=generator) * 3, torch.randint(
        0, classes, (count,), generator=generator
    )


def test_score_against_torchmetrics():
    logits, labels = some(41)
    expected = multiclass_accuracy(logits, labels, 5, average="macro")
    assert task_of().score(logits, labels) == pytest.approx(float(expected), abs=1e-6)
    marks = (some(41, seed=3)[0] > 1).long()
    expected = multilabel_average_precision(logits, marks, 5)
    assert task_of(multi_label=True).score(logits, marks.float()) == pytest.approx(float(expected), abs=1e-6)
    # nothing to find: no better than anything
    assert task_of(multi_label=True).score(logits, torch.zeros(41, 5)) == 0.0


def test_diverged():
    logits, labels = some()
    logits[3, 2] = float("nan")
    with pytest.raises(FovealError, match="expected finite numbers, got NaN or infinity"):
        task_of().score(logits, labels)


def a_batch(count=7):
    images = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(9))
    return Batch(images, torch.arange(count) % 5, torch.arange(count) * 2, torch.ones(count, dtype=torch.bool))


def test_images_are_normalised():
    task, batch = task_of(), a_batch()
    seen = task.normalised(task.images(batch))
    expected = (batch.images[:, 2].float() / 255 - 0.3) / 0.5
    torch.testing.assert_close(seen[:, 2], expected)
    task.resident = torch.randint(0, 256, (30, 32, 32, 3), dtype=torch.uint8)
    torch.testing.assert_close(task.images(batch)[3], task.resident[6].permute(2, 0, 1).float() / 255)


def test_a_slice_of_a_batch_may_be_empty():
    batch = Batch(*(part[:0] for part in a_batch()))
    assert task_of().logits(batch).shape == (0, 5)


def test_the_average_is_evaluated():
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


def test_no_decay_on_biases_of_several_kernels():
    task = task_of(attention="DynamicMixture", weight_decay=0.3)
    names = {id(parameter): name for name, parameter in task.model.named_parameters()}
    free = [names[id(one)] for group in task.groups() if not group["weight_decay"] for one in group["params"]]
    decayed = [names[id(one)] for group in task.groups() if group["weight_decay"] for one in group["params"]]
    assert task.model.attention.bias.dim() == 2
    assert "attention.bias" in free
    assert "attention.weight" in decayed
    assert not [name for name in decayed if name.endswith("bias")]


def test_no_decay_on_scales_and_shifts():
    task = task_of(weight_decay=0.3, lr=0.01, warmup=0.2)
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
        loop = types.SimpleNamespace(epoch_loop=types.SimpleNamespace(total_batch_idx=number))
        task._trainer = types.SimpleNamespace(fit_loop=loop, global_rank=0, world_size=1)
        monkeypatch.setattr(ClassifyModule, "global_rank", property(lambda self: self._trainer.global_rank))
        torch.manual_seed(before)
        task.on_train_batch_start(a_batch(), 0)
        losses.append(task.training_step(a_batch(), 0).item())
    assert losses[0] == losses[1] != losses[2]


def test_what_sees_pixels_may_learn_more_slowly():
    task = task_of(backbone_lr=0.2, lr=0.01, weight_decay=0.3)
    rates = {}
    for group in task.configure_optimizers()["optimizer"].param_groups:
        for parameter in group["params"]:
            rates[id(parameter)] = group["initial_lr"]
    for name, parameter in task.model.named_parameters():
        assert rates[id(parameter)] == pytest.approx(0.002 if name.startswith("phi.") else 0.01)
    assert not is_backbone(None, "net.classifier.1.weight")
    assert is_backbone(None, "net.resnet.embedder.convolution.weight")
    vit = create("vit-micro", width=8, heads=2, layers=1, hidden=5)
    for model in (vit, create("efficientnet-lite0")):
        others = {name for name, _ in model.named_parameters() if not is_backbone(model, name)}
        assert others == {"head.weight", "head.bias"}


@pytest.mark.parametrize("name", ["icam-31k", "efficientnet-lite0", "resnet-18"])
def test_what_sees_pixels_is_frozen_without_a_learning_rate(name):
    config = {"patch": 8, "mixer": True} if name == "icam-31k" else {}
    model = create(name, image=32, classes=5, **config)
    task = task_of(model=model, backbone_lr=0, lr=0.01, augment="none")
    before = {key: tensor.clone() for key, tensor in task.model.state_dict().items()}
    task.log = lambda *args, **keywords: None
    optimizer = task.configure_optimizers()["optimizer"]
    for _ in range(2):
        optimizer.zero_grad()
        task.training_step(a_batch(), 0).backward()
        optimizer.step()
    moved = {key for key, tensor in task.model.state_dict().items() if not torch.equal(tensor, before[key])}
    assert moved, "nothing learns"
    assert not {key for key in moved if is_backbone(task.model, key)}, "BatchNorm's statistics included"
    learned = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    for key, parameter in task.model.named_parameters():
        assert (id(parameter) in learned) == (parameter.grad is not None) == (not is_backbone(task.model, key)), key


@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_what_is_frozen_sees_each_view_once(tmp_path, monkeypatch, ema):
    """And the run is the one that has forgotten every time what it saw."""
    data = a_set(tmp_path / "set")
    recipe = ClassifyRecipe(
        data=str(data), fold=1, model="efficientnet-lite0", config={"pooled": True}, size=32, batch=8, epochs=5,
        backbone_lr=0, views=2, ema=ema, augment="strong", mixup=0.2, lr=0.01,
    )  # fmt: skip
    real, seen = EfficientNetLite.see, []

    def counting(self, images):
        seen.append(len(images))
        return real(self, images)

    monkeypatch.setattr(EfficientNetLite, "see", counting)
    trained(recipe, tmp_path / "once", machine=Machine(device="cpu"))
    once = len(seen)
    monkeypatch.setattr(Kept, "__contains__", lambda *_: False)
    trained(recipe, tmp_path / "each", machine=Machine(device="cpu"))
    assert once < len(seen) - once
    same_run(tmp_path / "once", tmp_path / "each")


def test_what_is_frozen_stays_so_where_steps_are_recorded(monkeypatch):
    modes = {}

    def recorded(model, samples):
        modes.update({name: module.training for name, module in model.named_modules()})

    monkeypatch.setattr(torch.cuda, "make_graphed_callables", recorded)
    task = task_of(backbone_lr=0)
    data = types.SimpleNamespace(splits=types.SimpleNamespace(train=range(7)))
    task._trainer = types.SimpleNamespace(datamodule=data)
    task.eval()
    task.record()
    assert {name: mode for name, mode in modes.items() if mode == name.startswith("phi")} == {}


def test_a_model_that_would_learn_nothing_is_refused():
    with pytest.raises(FovealError, match="--backbone-lr: expected above 0 for a model whose last layer is not known"):
        task_of(model=torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 5)), backbone_lr=0)


def test_a_frozen_run_resumes(tmp_path, monkeypatch):
    data = a_set(tmp_path / "set")
    recipe = ClassifyRecipe(
        data=str(data), fold=1, model="efficientnet-lite0", config={"pooled": True}, size=32, batch=8, epochs=4,
        backbone_lr=0, views=3, checkpoint="last",
    )  # fmt: skip
    trained(recipe, tmp_path / "whole", machine=Machine(device="cpu"))
    killed_and_resumed(recipe, tmp_path / "killed", monkeypatch, checkpoints=2)
    same_run(tmp_path / "whole", tmp_path / "killed")


def models():
    """Each kind of block that is computed again, and what one batch of it is."""
    config = {"image": 32, "patch": 8, "classes": 5, "dropout": 0.3}
    yield "icam-31k", {**config}
    yield "icam-30k", {**config, "layers": 3}
    for name in ("efficientnet-lite0", "resnet-18", "mobilenet-v2"):
        yield name, {"image": 32, "classes": 5}
    small = {"classes": 5, "dropout": 0.3, "drop_path": 0.4}
    yield "pvt-micro", {**small, "widths": (6, 6, 6, 6), "image": 32}
    yield "swin-micro", {**small, "width": 8, "depths": (1, 2, 1, 1), "window": 2}
    yield (
        "vit-micro",
        {**small, "image": 32, "patch": 4, "stem": (5, 7), "width": 6, "heads": 2, "layers": 3, "hidden": 5},
    )


@pytest.mark.parametrize(("name", "config"), models(), ids=[name for name, _ in models()])
def test_gradient_checkpointing_changes_no_number(name, config):
    """Gradients, running statistics and their counters are equal bit for bit, dropout included."""
    if name in ("resnet-18", "mobilenet-v2"):
        pytest.importorskip("transformers")
    found = []
    for checkpointing in (False, True):
        torch.manual_seed(0)
        recipe = ClassifyRecipe(size=32, checkpointing=checkpointing, ema=0.9)
        task = ClassifyModule(
            create(name, **config),
            recipe,
            classes=5,
            multi_label=False,
            steps=19,
            counts=COUNTS,
            images=24,
            mean=(0.5,) * 3,
            std=(0.2,) * 3,
        )
        task.train()
        assert len(list(blocks_of(task.model))) > 2
        torch.manual_seed(1)
        images = torch.randn(7, 3, 32, 32)
        for _ in range(2):
            task.model(images).square().sum().backward()
        gradients = {key: value.grad for key, value in task.model.named_parameters()}
        found.append((gradients, dict(task.model.named_buffers())))
        task.eval()
        assert task.model(images).shape == task.evaluated(images).shape == (7, 5)
        assert "forward" not in vars(next(blocks_of(task.average.module))), (
            "the average must not run the blocks of the model"
        )
    (plain, statistics), (again, moved) = found
    assert plain.keys() == again.keys()
    assert [key for key in plain if not torch.equal(plain[key], again[key])] == []
    assert [key for key in statistics if not torch.equal(statistics[key], moved[key])] == []
    assert any("running_mean" in key for key in moved) or name.startswith(("swin", "pvt")), "these have LayerNorm only"


def test_gradient_checkpointing_holds_less_memory():
    from foveal.deploy.measure.memory import peak

    held = []
    for checkpointing in (False, True):
        torch.manual_seed(0)
        recipe = ClassifyRecipe(size=64, checkpointing=checkpointing, ema=0.0)
        model = create("icam-31k", image=64, patch=16, classes=5)
        task = ClassifyModule(
            model,
            recipe,
            classes=5,
            multi_label=False,
            steps=19,
            counts=COUNTS,
            images=24,
            mean=(0.5,) * 3,
            std=(0.2,) * 3,
        )
        images = torch.randn(16, 3, 64, 64)
        held.append(peak(lambda: task.model(images).sum().backward()))
    assert held[1] < 0.8 * held[0]


@pytest.mark.parametrize("attention", ["", "DynamicMixture"])
def test_convolutions_lie_as_images_do_and_other_weights_as_they_were(attention):
    lies = dict(task_of(attention=attention).model.named_parameters())
    fours = [weight for weight in lies.values() if weight.dim() == 4]
    assert fours
    assert all(weight.is_contiguous(memory_format=torch.channels_last) for weight in fours)
    assert all(weight.is_contiguous() for weight in lies.values() if weight.dim() != 4)
    assert any(weight.dim() == 5 for weight in lies.values()) == bool(attention)
