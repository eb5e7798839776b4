"""A classifier's logits for images of a set, whatever computes them."""

import numpy as np
import pytest
from data.bad import BAD, spoiled
from torch import nn

from foveal.data.read import read
from foveal.errors import FovealError
from foveal.progress import silent
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.evaluate import logits_of, predict_split
from foveal.tasks.classify.predict_torch import TorchClassifier


class Colour(nn.Module):
    """(mean red, mean blue) of a normalised image."""

    def forward(self, images):
        assert not self.training
        return images.mean((2, 3))[:, [0, 2]]


CARD = ClassifyCard(
    model="colour", family="icam", config={}, classes=("a", "b"), size=19, mean=(0.5, 0.4, 0.3), std=(0.1, 0.2, 0.5),
    recipe={"blank": [[0.0, 0.0, 1.0, 0.5]]},
)  # fmt: skip


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return read(str(spoiled(tmp_path_factory.mktemp("set"))))


def classifier(batch=64):
    return TorchClassifier(Colour(), CARD, "cpu", batch)


@pytest.mark.parametrize("batch", [1, 5, 64])
def test_against_numpy(source, batch):
    rows, logits, bad = logits_of(classifier(batch), source, np.arange(len(source))[::-1].copy(), silent)
    assert {file for file, _ in bad} == BAD.keys()
    assert all(BAD[file] in reason for file, reason in bad)
    assert rows.tolist() == [index for index in range(len(source))[::-1] if source.file(index) not in BAD]
    assert logits.dtype == np.float64
    for index, found in zip(rows, logits, strict=True):
        pixels = source.image(int(index), 19).astype(float)
        pixels[:10] = 128  # round(19 / 2)
        means = (pixels / 255).mean((0, 1))
        np.testing.assert_allclose(found, [(means[0] - 0.5) / 0.1, (means[2] - 0.3) / 0.5], atol=1e-5)


def test_nothing_can_be_read(source):
    bad = [index for index in range(len(source)) if source.file(index) in BAD]
    rows, logits, left_out = logits_of(classifier(), source, bad, silent)
    assert len(rows) == 0
    assert logits.shape == (0, 2)
    assert len(left_out) == len(BAD)


def test_a_split_without_labelled_images(tmp_path, source):
    source.split[:] = 0
    with pytest.raises(FovealError, match="split test: expected labelled images, got none"):
        predict_split(classifier(), source, "test", None, silent)
