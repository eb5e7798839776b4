"""Which device a word means."""

import pytest
import torch

from foveal.device import choose
from foveal.errors import FovealError


@pytest.mark.parametrize(("gpus", "expected"), [(0, "cpu"), (2, "cuda")])
def test_auto_is_a_gpu_if_there_is_one(monkeypatch, gpus, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    assert choose() == choose("auto") == torch.device(expected)
    assert choose("cpu") == torch.device("cpu")


def test_a_gpu_by_its_number(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(FovealError, match=r"got 'cuda:2'; torch finds 2 GPU"):
        choose("cuda:2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(FovealError, match=r"got 'cuda'; torch finds no GPU"):
        choose("cuda")


@pytest.mark.parametrize("name", ["abacus", "tpu:0", "", None, "GPU"])
def test_what_is_no_device_is_one_line(name):
    with pytest.raises(
        FovealError, match="device: expected auto, or one that this machine has, such as cpu or cuda, got"
    ) as caught:
        choose(name)
    assert "\n" not in str(caught.value)
