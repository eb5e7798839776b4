"""Feature maps of image models: what a decoder, a detector or another head builds on.

Every image model of foveal has `features(images)`: a list of maps (B, C, h, w), the finest first, and `strides` and
`widths`, which say of each map how many pixels a cell stands for and how many channels it has. A side that a stride
does not divide is rounded up. CNNs give strides 4, 8, 16 and 32: the map of stride 2 is wide, early and used by few.
A ViT of transformers' gives one map, and foveal's own resamples it to these strides. `Features` gives the same of a
module of somebody else's.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from foveal.errors import FovealError, expect, expect_integer, short_repr, unknown

SIDE = 64  # in pixels, of the image that shows strides and widths: the smallest with a cell to spare at stride 32


class GivesMaps(Protocol):
    @property
    def strides(self) -> tuple[int, ...]: ...

    @property
    def widths(self) -> tuple[int, ...]: ...

    def features(self, images: Tensor) -> list[Tensor]: ...


class Features(nn.Module):
    """A module of somebody else's as one that gives maps. Called, it gives the last: a Φ for ICAM.

    Features(torchvision.models.resnet18(), ["layer1", "layer2", "layer3", "layer4"]).strides is (4, 8, 16, 32).
    """

    def __init__(self, module: nn.Module, layers: Sequence[str] = (), *, side: int = SIDE) -> None:
        """layers: the names of inner modules whose outputs are the maps; none: the module's own output is one map, a
        list or a dict of them, or has them as `feature_maps`. side: of an image that it takes, run once to find strides
        and widths.
        """
        super().__init__()
        expect(isinstance(module, nn.Module), "Features' module", "a module of torch's", short_repr(module))
        expect_integer(side, "Features' side")
        known = dict(module.named_modules())
        for name in layers:
            if name not in known:
                raise unknown("layer", str(name), [one for one in known if one])
        self.module, self.layers = module, tuple(layers)
        self.order: tuple[int, ...] = ()
        found = probe(self, self._maps, side)
        self.order = tuple(sorted(range(len(found)), key=lambda place: found[place][0]))
        self.found = tuple(found[place] for place in self.order)
        self.width = self.widths[-1]

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(stride for stride, _ in self.found)

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(width for _, width in self.found)

    def features(self, images: Tensor) -> list[Tensor]:
        maps = self._maps(images)
        return [maps[place] for place in self.order]

    def forward(self, images: Tensor) -> Tensor:
        return self.features(images)[-1]

    def _maps(self, images: Tensor) -> list[Tensor]:
        """As the module gives them."""
        if not self.layers:
            return _listed(self.module(images))
        parts, seen = dict(self.module.named_modules()), {}
        hooks = [
            parts[name].register_forward_hook(lambda _, __, y, name=name: seen.update({name: y}))
            for name in self.layers
        ]
        try:
            self.module(images)
        finally:
            for hook in hooks:
                hook.remove()
        return [seen[name] for name in self.layers if name in seen]


def gives_maps(module: nn.Module) -> bool:
    """Whether a module has the protocol. Its class must have `features`:
    a network of others' may have a part of that name. Nothing is computed to find out.
    """
    kept = all(name in vars(module) or hasattr(type(module), name) for name in ("strides", "widths"))
    return kept and callable(getattr(type(module), "features", None))


def probe(module: nn.Module, features: Callable[[Tensor], Sequence[Tensor]], side: int = SIDE) -> list[tuple[int, int]]:
    """(stride, width) of each map, found by one blank image in evaluation mode, which leaves the module as it is."""
    weight = next((one for one in module.parameters() if one.is_floating_point()), torch.empty(0))
    modes = {part: part.training for part in module.modules()}
    try:
        with torch.no_grad():
            module.eval()
            maps = features(torch.zeros(1, 3, side, side, dtype=weight.dtype, device=weight.device))
    finally:
        for part, mode in modes.items():
            part.training = mode
    where = type(getattr(module, "module", module)).__name__
    expect(len(maps) > 0, f"the feature maps of {where}", "at least one", "none")
    for one in maps:
        fits = isinstance(one, Tensor) and one.dim() == 4 and min(one.shape) > 0
        if not fits:
            got = tuple(one.shape) if isinstance(one, Tensor) else short_repr(one)
            raise FovealError(
                f"the feature maps of {where}: expected (B, C, h, w), got {got}; name the layers that give them"
            )
    return [(max(1, round(side / one.shape[2])), one.shape[1]) for one in maps]


def _listed(output: Any) -> list[Any]:
    if isinstance(output, Tensor):
        return [output]
    if hasattr(output, "feature_maps"):
        return list(output.feature_maps)
    if isinstance(output, Mapping):
        return list(output.values())
    return list(output) if isinstance(output, (list, tuple)) else [output]
