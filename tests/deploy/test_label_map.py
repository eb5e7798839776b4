"""Labels without enlarged logits are the labels of enlarged logits."""

import pytest
import torch
from torch.nn import functional as F

from foveal.deploy.twins.label_map import LabelMap
from foveal.errors import FovealError


@pytest.mark.parametrize("times", [2, 4, 8, 16])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_it_says_what_the_enlarged_logits_say(times, classes):
    logits = torch.randn(3, classes, 5, 11, generator=torch.Generator().manual_seed(classes))
    enlarged = F.interpolate(logits, scale_factor=float(times), mode="bilinear")
    labels = LabelMap(times)(logits)
    assert labels.dtype == torch.uint8
    assert torch.equal(labels.long(), enlarged.argmax(1))
    assert len(labels.unique()) == classes


def test_by_hand():
    """Two cells, enlarged twice: the second class wins from the third pixel of four on, where it has 3/4."""
    logits = torch.tensor([[[[1.0, 1.0]], [[0.0, 1.6]]]])  # class 0 says 1 everywhere; class 1: 0, 0.4, 1.2, 1.6
    assert LabelMap(2)(logits).tolist() == [[[0, 0, 1, 1], [0, 0, 1, 1]]]


def test_of_equal_logits_the_first_class_has_it():
    logits = torch.zeros(1, 3, 2, 2)
    logits[:, 1:] = 1.0
    assert LabelMap(4)(logits).unique().tolist() == [1]


@pytest.mark.parametrize("times", [1, 3, 0])
def test_it_asks_for_an_even_number(times):
    with pytest.raises(FovealError, match="LabelMap's times: expected an even number"):
        LabelMap(times)
