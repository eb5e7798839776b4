"""What image models share."""

import copy

import pytest
import torch
from torch import nn

from foveal.errors import FovealError
from foveal.models.image_model import fold_batch_norms
from foveal.models.zoo import create


@pytest.mark.parametrize("name", ["efficientnet-lite0", "icam-lite", "icam-31k", "icam-fast"])
def test_without_batch_norms_a_model_answers_as_before(name):
    torch.manual_seed(0)
    model = create(name, classes=5)
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.running_mean.uniform_(-1, 1)
                part.running_var.uniform_(0.5, 2)
                part.weight.uniform_(0.5, 1.5)
                part.bias.uniform_(-1, 1)
    model.eval()
    images = torch.randn(2, 3, 224, 224)
    folded = fold_batch_norms(copy.deepcopy(model))
    with torch.no_grad():
        expected = model(images)
        torch.testing.assert_close(folded(images), expected, atol=1e-5 * float(expected.abs().max()), rtol=1e-4)
        for mine, theirs in zip(folded.features(images), model.features(images), strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-4 * float(theirs.abs().max()), rtol=1e-3)
        again = fold_batch_norms(folded)(images)
        torch.testing.assert_close(again, expected, atol=1e-5 * float(expected.abs().max()), rtol=1e-4)
    behind = [part for part in folded.modules() if isinstance(part, nn.BatchNorm2d)]
    assert not behind
    assert sum(isinstance(part, nn.BatchNorm2d) for part in model.modules()) > 0


def test_batch_norms_that_learn_are_not_folded():
    with pytest.raises(FovealError, match="expected a model in evaluation mode"):
        fold_batch_norms(create("icam-31k"))
