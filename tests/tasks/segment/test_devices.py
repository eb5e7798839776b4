"""A step of training computes on one device: on the device "meta", which every operation refuses to mix with a CPU."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tasks.segment.squares import squares
from torch import nn

from foveal.progress import silent
from foveal.tasks.segment import module as own
from foveal.tasks.segment import task
from foveal.tasks.segment.data import SegmentData
from foveal.tasks.segment.loss import SegmentLoss
from foveal.tasks.segment.recipe import SegmentRecipe
from foveal.tasks.segment.training import SegmentTraining
from foveal.training.cuda_graph import GraphedLoss


def module_of(data, **fields):
    recipe = SegmentRecipe(**{"data": str(data), "size": 32, "zoom": 1.0, "batch": 4} | fields)
    source = task.TASK.read(recipe)
    settled = task.TASK.settled(recipe, source).recipe
    machine = SimpleNamespace(workers=0, devices=1)
    training = SegmentTraining(settled, source, Path("nowhere"), machine, silent, True)
    return training.module, next(iter(training.data.train_dataloader()))


def moved(module):
    for part in module.modules():
        for tensors in (part._parameters, part._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    new = torch.empty_like(tensor, device="meta")
                    learns = tensors is part._parameters and tensor.requires_grad
                    tensors[name] = nn.Parameter(new) if learns else new
    return module


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "icam-seg", "augment": "strong", "balance": "weights", "focal": 2.0},
        {"model": "icam-seg-small", "augment": "upright", "cldice": 1.0, "ohem": 0.5, "skeleton": 1.0},
        {"model": "unet-8", "augment": "free"},
        {"model": "attention-unet-micro"},
        {"model": "segformer-b0"},
        {"model": "setr-micro", "size": 64},
        {"model": "segmenter-micro", "size": 64},
    ],
    ids=lambda fields: fields["model"],
)
def test_what_a_step_computes_is_all_on_the_device(tmp_path, monkeypatch, fields):
    monkeypatch.setattr(SegmentLoss, "tubes", lambda loss, labels: labels.clone())  # made by numpy on a CPU
    module, batch = module_of(squares(tmp_path), **fields)
    images, labels = module.windows(batch)
    variation = module.drawing.variation
    module = moved(module)
    on = (torch.empty_like(images, device="meta"), torch.empty_like(labels, device="meta"))
    seen, truth = own.varied(*on, variation)
    given = [module.loss.tubes(truth)] if module.loss.has_skeletons else []
    loss = module(seen, truth, *given)
    assert loss.device.type == "meta"
    loss.backward()
    maps = own.Maps(module.model, module.opened_card).to("meta")
    assert maps.seen(torch.empty(1, 40, 50, 3, dtype=torch.uint8, device="meta")).device.type == "meta"


def test_images_stay_where_they_are_kept(tmp_path):
    recipe = SegmentRecipe(data=str(squares(tmp_path)), size=32, zoom=1.0, batch=4)
    data = SegmentData(task.TASK.read(recipe), recipe, workers=0)
    batch = next(iter(data.train_dataloader()))
    assert data.transfer_batch_to_device(batch, torch.device("meta"), 0) is batch


def test_a_recorded_step_leaves_a_head_alone_that_has_no_part_in_the_loss(tmp_path):
    module, batch = module_of(squares(tmp_path), deep=0.0, boundary=0.0)
    given = [*module.windows(batch)]
    module(*given).backward()
    wanted = {name: parameter.grad for name, parameter in module.model.named_parameters()}
    module.zero_grad(set_to_none=True)
    module.cuda_graphs = GraphedLoss(module)
    module.recorded_loss(*given).backward()
    assert any(gradient is None for gradient in wanted.values())
    for name, parameter in module.model.named_parameters():
        if wanted[name] is None:
            assert parameter.grad is None, name
        else:
            torch.testing.assert_close(parameter.grad, wanted[name], msg=name)
