"""Images that are shrunk before the model sees them: in numpy as the graph does it."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from foveal.tasks.segment.graph import padded
from foveal.tasks.segment.zoom import shrunk


def test_by_hand():
    image = np.array([[0, 4, 10], [2, 6, 20]], np.uint8)[..., None].repeat(3, 2)
    small, labels = shrunk(image, np.array([[1, 2, 3], [4, 5, 6]], np.uint8), 2)
    assert small[..., 0].tolist() == [[3, 15]]
    assert labels.tolist() == [[5, 6]]


@pytest.mark.parametrize(("height", "width", "times"), [(7, 11, 2), (8, 8, 4), (3, 17, 8), (5, 5, 1)])
def test_as_the_graph_does_it(height, width, times):
    image = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    small, labels = shrunk(image, np.zeros((height, width), np.uint8), times)
    theirs = F.avg_pool2d(padded(torch.from_numpy(image).permute(2, 0, 1)[None].float(), times), times)[0]
    assert np.abs(theirs.permute(1, 2, 0).numpy() - small).max() <= 0.5
    assert labels.shape == small.shape[:2] == (-(-height // times), -(-width // times))
