"""The first stages of somebody else's network as Φ: transformers' ResNet by its config, or any backbone of timm,
where these are installed.

`backbone("resnet-18:1")` is transformers' ResNet-18 up to its first stage, `backbone("timm:mobilenetv3_small_100:1")`
timm's network up to its feature map 1. Weights are new; load others into the module before it is given to Icam.
"""

import importlib
from typing import Any

from torch import Tensor, nn

from foveal.errors import FovealError, expect, short_repr, unknown
from foveal.models.features import probe

# name → transformers' config of a ResNet
_RESNETS: dict[str, dict[str, Any]] = {
    "resnet-18": {"layer_type": "basic", "depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512]},
    "resnet-50": {"layer_type": "bottleneck", "depths": [3, 4, 6, 3], "hidden_sizes": [256, 512, 1024, 2048]},
}


class Backbone(nn.Module):
    """Patches (B, 3, h, w) → the map of one stage (B, width, h′, w′)."""

    def __init__(self, net: nn.Module, width: int) -> None:
        super().__init__()
        self.net, self.width = net, width

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(stride for stride, _ in probe(self, self.features))

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.width,)

    def features(self, images: Tensor) -> list[Tensor]:
        """That one map: see models/features.py."""
        return [self(images)]

    def forward(self, patches: Tensor) -> Tensor:
        maps = self.net(patches)
        last: Tensor = (maps.feature_maps if hasattr(maps, "feature_maps") else maps)[-1]
        return last


def backbone(name: str) -> Backbone:
    """NAME:STAGE of transformers, or timm:NAME:STAGE."""
    expect(
        isinstance(name, str), "the backbone", "NAME:STAGE or timm:NAME:STAGE, such as resnet-18:1", short_repr(name)
    )
    source, _, rest = name.partition(":") if name.startswith("timm:") else ("transformers", "", name)
    net, _, stage = rest.rpartition(":")
    expect(
        bool(net) and stage.isdigit(), "the backbone", "NAME:STAGE or timm:NAME:STAGE, such as resnet-18:1", repr(name)
    )
    library = _library(source, name)
    return _timm(library, net, int(stage)) if source == "timm" else _resnet(library, net, int(stage))


def _resnet(transformers: Any, name: str, stage: int) -> Backbone:
    if name not in _RESNETS:
        raise unknown("backbone", name, _RESNETS)
    hf_config = _RESNETS[name]
    expect(1 <= stage <= 4, f"the stage of {name}", "1 to 4", stage)
    # Only the stages that are used are built: what stands behind them would be weights for nothing.
    depths, widths = hf_config["depths"][:stage], hf_config["hidden_sizes"][:stage]
    config = transformers.ResNetConfig(
        layer_type=hf_config["layer_type"], depths=depths, hidden_sizes=widths, out_indices=[stage]
    )
    return Backbone(transformers.ResNetBackbone(config), widths[-1])


def _timm(timm: Any, name: str, stage: int) -> Backbone:
    try:
        net = timm.create_model(name, pretrained=False, features_only=True, out_indices=(stage,))
    except (RuntimeError, IndexError, AssertionError, ValueError) as error:
        raise FovealError(
            f"the backbone timm:{name}:{stage}: expected a network and a stage of timm's, got {error}"
        ) from None
    return Backbone(net, net.feature_info.channels()[-1])


def _library(source: str, name: str) -> Any:
    try:
        return importlib.import_module(source)
    except ImportError as error:
        raise FovealError(
            f"the backbone {name}: expected {source} to be installed, got {error}; pip install {source}"
        ) from None
