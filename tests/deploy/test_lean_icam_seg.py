"""An icam-seg with fewer operations says what the trained one says."""

import pytest
import torch
from cards import classify_card
from torch import nn

from foveal.deploy.twins.lean_icam_seg import LeanIcamSeg, Positions, repeated
from foveal.models.efficientnet_lite import B0
from foveal.models.mbconv import Stage
from foveal.models.zoo import create
from foveal.position.sinusoidal_2d import Sinusoidal2d

BUILDS = {
    "as it is": {},
    "EfficientNet-Lite0's start": {"stages": B0[:4], "activation": "relu6", "convolution": "tensorflow", "layers": 2},
    "a stem of stride 4": {
        "stem_kernel": 7,
        "stem_stride": 4,
        "convolution": "tensorflow",
        "stages": (Stage(16, expand=2, squeeze=False), Stage(24, stride=2, kernel=5, expand=3, squeeze=True)),
    },
    "no blocks in the path": {"refine": 0, "layers": 1, "path": 12, "heads": 4},
    "no gate": {"gate": False},
    "nothing in common, no layers of queries": {"common": False, "layers": 0},
}


def trained(**changes):
    """Whose BatchNorms and biases are not as they begin."""
    torch.manual_seed(0)
    model = create("icam-seg", classes=5, image=64, **changes).eval()
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.running_mean.normal_(0, 0.3)
                part.running_var.uniform_(0.5, 2)
                part.weight.uniform_(0.5, 1.5)
                part.bias.normal_(0, 0.3)
        biases = [model.bias, model.answer.bias, model.pixels.bias, *([model.gate.bias] if model.gate else [])]
        for bias in biases:
            bias.normal_()
    return model


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("sides", [(64, 64), (96, 160)])
def test_it_says_the_same(build, sides):
    model = trained(**BUILDS[build])
    mean, std = (0.5, 0.4, 0.3), (0.3, 0.2, 0.1)
    card = classify_card("icam-31k", "icam", {}, ("a", "b"), size=64, mean=mean, std=std)
    pixels = torch.randint(0, 256, (3, 3, *sides), generator=torch.Generator().manual_seed(1)).float()
    mean, std = (torch.tensor(one)[:, None, None] for one in (mean, std))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        expected = model((pixels / 255 - mean) / std)
        found = LeanIcamSeg(model, card)(pixels - 255 * mean)
    assert expected.std() > 0.1
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("width", [2, 7, 32])
def test_positions_are_those_of_the_paper(width):
    grid = torch.zeros(1, 40, 23, width)
    torch.testing.assert_close(Positions(width)(40, 23), Sinusoidal2d(width).embed(grid)[0], rtol=0, atol=1e-5)


def test_every_pixel_is_repeated():
    x = torch.randn(2, 5, 3, 7)
    assert torch.equal(repeated(x), torch.nn.functional.interpolate(x, scale_factor=2.0, mode="nearest"))


@pytest.mark.parametrize("build", BUILDS)
def test_it_reads_bytes(build):
    """The mean is that of bytes: no colour around the image is rounded."""
    model = trained(**BUILDS[build])
    mean, std = (127 / 255, 100 / 255, 20 / 255), (0.3, 0.2, 0.1)
    card = classify_card("icam-31k", "icam", {}, ("a", "b"), size=64, mean=mean, std=std)
    frames = torch.randint(0, 256, (2, 96, 64, 3), dtype=torch.uint8)
    pixels = frames.permute(0, 3, 1, 2) / 255
    mean, std = (torch.tensor(one)[:, None, None] for one in (mean, std))
    lean = LeanIcamSeg(model, card)
    lean.read_bytes(card)
    with torch.no_grad():
        torch.testing.assert_close(lean(frames), model((pixels - mean) / std), rtol=1e-4, atol=1e-4)
