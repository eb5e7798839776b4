"""A model's logits for images of a set."""

import numpy as np
import pytest
import torch
from data.bad import BAD, spoiled
from torch import nn

from foveal.data.read import read
from foveal.errors import FovealError
from foveal.runtime.card import Card
from foveal.tasks.classify.logits import logits_of


class Colour(nn.Module):
    """(mean red, mean blue) of a normalised image."""

    def forward(self, images):
        assert not self.training
        return images.mean((2, 3))[:, [0, 2]]


CARD = Card("colour", "icam", {}, ("a", "b"), size=19, mean=(0.5, 0.4, 0.3), std=(0.1, 0.2, 0.5), recipe={"blank": [[0.0, 0.0, 1.0, 0.5]]})


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return read(str(spoiled(tmp_path_factory.mktemp("set"))))


@pytest.mark.parametrize("batch", [1, 5, 64])
def test_against_numpy(source, batch):
    rows, logits, bad = logits_of(Colour(), CARD, source, np.arange(len(source))[::-1].copy(), batch=batch, device="cpu")
    assert {file for file, _ in bad} == BAD.keys()
    assert all(BAD[file] in reason for file, reason in bad)
    assert rows.tolist() == [index for index in range(len(source))[::-1] if source.file(index) not in BAD]
    assert logits.dtype == np.float64
    for index, said in zip(rows, logits, strict=True):
        pixels = source.image(int(index), 19).astype(float)
        pixels[:10] = 128  # round(19 / 2)
        means = (pixels / 255).mean((0, 1))
        np.testing.assert_allclose(said, [(means[0] - 0.5) / 0.1, (means[2] - 0.3) / 0.5], atol=1e-5)


def test_nothing_can_be_read(source):
    bad = [index for index in range(len(source)) if source.file(index) in BAD]
    rows, logits, told = logits_of(Colour(), CARD, source, bad, device="cpu")
    assert len(rows) == 0
    assert logits.shape == (0, 2)
    assert len(told) == len(BAD)


def test_bad_input(source):
    with pytest.raises(FovealError, match="at least one image"):
        logits_of(Colour(), CARD, source, [])
    if not torch.cuda.is_available():
        with pytest.raises(FovealError, match=r"device: expected auto, or one that this machine has, .* got 'cuda'; torch finds no GPU"):
            logits_of(Colour(), CARD, source, [0], device="cuda")
