"""Structured pruning to a target: whole channels go until a model has the parameters, or the work, of another one.

Then both can be compared.

    keep_g = max(1, ⌊C_g (1 − r)⌋) channels of each group g, those of the largest importance;
             r the smallest with cost(r) ≤ target
    l1     importance of a channel = mean of |w| sums over the layers that make or read it
    fpgm   importance of a channel = mean over those layers of Σ_j ‖|w| − |w_j|‖, how far it is from the others:
           what is near to all can be spared

Symbols: a group is what must lose the same channels, such as all that a residual sum joins; C_g its channels, of
attention those of one head; r the share that is cut, one for all groups, found by bisection. Where the next smaller r
costs too much, the first groups have that one, as many as the target allows; where one group's channel is more than
the target misses, that group stays and the others are searched again. Papers: Hao Li, Asim Kadav, Igor Durdanovic,
Hanan Samet, Hans Peter Graf (2017). Pruning filters for efficient ConvNets. ICLR. arXiv:1608.08710. Yang He, Ping Liu,
Ziwei Wang, Zhilan Hu, Yi Yang (2019). Filter pruning via geometric median. CVPR. arXiv:1811.00250. Gongfan Fang,
Xinyin Ma, Mingli Song, Michael Bi Mi, Xinchao Wang (2023). DepGraph: towards any structural pruning. CVPR.
arXiv:2301.12900. Departs from the papers: importance and groups are torch-pruning's, which takes the mean over the
layers of a group; its fpgm measures distances between |w|, not w.
"""

import copy
import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from foveal.deploy.measure.cost import flops, parameters
from foveal.errors import FovealError, expect, is_integer, short_repr, unknown
from foveal.layers.gated import Gated
from foveal.models.efficientnet_lite import EfficientNetLite
from foveal.models.icam import CrossBlock, Icam
from foveal.models.peer import Peer
from foveal.models.shrink import fit, query_of
from foveal.models.store import shapes_of
from foveal.runtime.card import Card

Kind = TypeVar("Kind", bound=Card)
UNITS = ("parameters", "flops")
METHODS = ("l1", "fpgm")
STEPS = 12  # of the bisection: shares differ by 1 in 4096, finer than one channel in any layer here
NEAR, ROUNDS = 0.95, 4  # of the target; how often the search goes on without the group whose channels are too dear


@dataclass(frozen=True)
class Way:
    """How torch-pruning is to see a model."""

    kept: list[nn.Module]  # layers whose outputs stay
    heads: dict[nn.Module, int] = field(default_factory=dict)  # projection → how many heads must lose the same channels
    # layer → how many equal parts of its outputs must lose the same channels
    alike: dict[nn.Module, int] = field(default_factory=dict)
    forward: Callable[[Any, Tensor], Tensor] = lambda model, images: model(images)


def prune(model: nn.Module, target: int, unit: str = "parameters", by: str = "l1") -> nn.Module:
    """A copy of a classifier with at most `target` parameters or flops, and its classes."""
    if unit not in UNITS:
        raise unknown("unit of a target", unit, UNITS)
    if by not in METHODS:
        raise unknown("importance of channels", by, METHODS)
    expect(is_integer(target) and target > 0, "the target", f"a number of {unit} above 0", short_repr(target))
    groups = _groups(model)
    cost = counter(unit)
    whole = cost(model)
    expect(target < whole, "the target", f"fewer {unit} than the model's own {whole:,}", f"{target:,}")
    least = cost(_pruned(model, [1] * len(groups), groups, "l1"))
    expect(least <= target, "the target", f"at least {least:,} {unit}, with one channel in every layer", f"{target:,}")

    fixed: dict[int, int] = {}  # groups that are too coarse for what is still missing, and the channels left in them

    def left(share: int, tail: int = len(groups)) -> tuple[int, ...]:
        """Channels left in each group, where share / 2^STEPS is cut from the last `tail` groups,
        and one step less from the others.
        """
        shares = [share if place >= len(groups) - tail else share - 1 for place in range(len(groups))]
        return tuple(
            fixed.get(place, max(1, groups[place][1] * (2**STEPS - one) // 2**STEPS))
            for place, one in enumerate(shares)
        )

    @functools.cache
    def cost_of(kept: tuple[int, ...]) -> int:
        return cost(_pruned(model, kept, groups, "l1"))  # whichever channels go, as many are left

    for _ in range(ROUNDS):
        share = _least(2**STEPS - 1, lambda share: cost_of(left(share)) <= target)
        tail = _least(len(groups), lambda tail: cost_of(left(share, tail)) <= target)  # noqa: B023 — called at once
        kept = left(share, tail)
        if cost_of(kept) >= NEAR * target:
            break
        fixed[len(groups) - tail] = kept[-tail]
    return _pruned(model, kept, groups, by)


def _least(high: int, fits: Callable[[int], bool]) -> int:
    """The smallest number that fits, of 1 to high, which does."""
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def counter(unit: str) -> Callable[[nn.Module], int]:
    """What counts a model's parameters, or its flops of one sample as it takes them."""
    return parameters if unit == "parameters" else lambda model: flops(model, *cast("Any", model).example())


def _pruned(model: nn.Module, kept: Sequence[int], groups: Sequence[tuple[str, int]], by: str) -> nn.Module:
    """A copy with so many channels in each group."""
    model = copy.deepcopy(model).eval()
    parts = dict(model.named_modules())
    before = {module: query.out_features for module in model.modules() if (query := query_of(module)) is not None}
    # Half a channel more, so that no rounding takes one away.
    shares = {
        parts[name]: 1 - (count + 0.5) / full for (name, full), count in zip(groups, kept, strict=True) if count < full
    }
    if shares:
        _pruner(model, by, shares).step()
    fit(model)
    with torch.no_grad():
        for module, width in before.items():
            if not hasattr(module, "scaling"):  # it divides scores by √ of its head width, which is smaller now
                query = query_of(module)
                for tensor in query.parameters():
                    tensor *= math.sqrt(query.out_features / width)
    for parameter in model.parameters():
        parameter.grad = None
    return model


def _groups(model: nn.Module) -> list[tuple[str, int]]:
    """The name of a layer of each group that can be pruned, and the channels of the group."""
    model = copy.deepcopy(model).eval()
    names = {module: name for name, module in model.named_modules()}
    pruner = _pruner(model, "l1", {})
    found = pruner.DG.get_all_groups(ignored_layers=pruner.ignored_layers, root_module_types=pruner.root_module_types)
    roots = [group[0].dep.target.module for group in found]
    groups = [
        (names[root], pruner.DG.get_out_channels(root) // pruner.out_channel_groups.get(root, 1)) for root in roots
    ]
    expect(bool(groups), "to prune", "a model with layers that can lose channels", "one without")
    return groups


def _pruner(model: nn.Module, by: str, shares: dict[nn.Module, float]) -> Any:
    pruning, way = _torch_pruning(), _way(model)
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it warns of every parameter outside of layers
        return pruning.BasePruner(
            model.requires_grad_(True),  # the groups are read off the graph of gradients
            cast("Any", model).example()[0],
            _importance(by),
            pruning_ratio=0.0,
            pruning_ratio_dict=shares,
            ignored_layers=way.kept,
            num_heads=way.heads,
            forward_fn=way.forward,
            out_channel_groups=way.alike,
            in_channel_groups={},  # its default would be shared by all pruners of a process
        )


def _importance(by: str) -> Any:
    known = _torch_pruning().importance
    return known.GroupMagnitudeImportance(p=1) if by == "l1" else known.FPGMImportance(p=1)


def _way(model: nn.Module) -> Way:
    if isinstance(model, Icam):
        return _way_of_icam(model)
    if isinstance(model, EfficientNetLite):
        return Way([model.head])
    expect(isinstance(model, Peer), "to prune", "an Icam, an EfficientNetLite or a peer", f"a {type(model).__name__}")
    net = cast("Peer", model).net
    head = net.classifier if isinstance(net.classifier, nn.Linear) else net.classifier[-1]
    heads: dict[nn.Module, int] = {}
    for module in net.modules():
        if (query := query_of(module)) is not None:
            projections = (
                query,
                *(getattr(module, name) for name in ("k_proj", "key", "v_proj", "value") if hasattr(module, name)),
            )
            heads |= dict.fromkeys(projections, module.num_attention_heads)
    return Way([head], heads)


def _way_of_icam(model: Icam) -> Way:
    """The width of tokens stays: positions, heads and queries are made for it.

    What sees pixels, the gated networks and the head lose channels.
    """
    blocks = [cast("CrossBlock", layer) for layer in model.layers]
    networks = [cast("Gated", block.feed_forward.layer) for block in blocks]
    tokens = [
        model.embed,
        model.first,
        *(block.attention for block in blocks),
        *(network.outer for network in networks),
    ]
    # Several queries lie behind each other where the head reads them, which torch-pruning cannot follow.
    rest = [
        model.head[-1],
        *([model.pooled] if model.pooled is not None else []),
        *([model.out] if model.config.queries > 1 else []),
    ]
    asks = cast("nn.Linear", getattr(model.first, "q", model.embed))

    def forward(icam: Icam, images: Tensor) -> Tensor:
        """Who reads whose channels, without attention: that joins nothing but tokens."""
        grid = icam.see(images)
        queries = icam.embed(icam.norm(icam.mixer(grid))).mean((1, 2))[:, None] + asks(icam.first.latent)
        for block in blocks:
            queries = block.feed_forward(queries)
        return icam.answer(queries, grid)

    gated: dict[nn.Module, int] = {network.inner: 2 for network in networks}  # what passes, and how much of it
    return Way([*tokens, *rest], alike=gated, forward=forward)


def pruned_card(card: Kind, pruned: nn.Module, words: str) -> Kind:
    """What the file says of itself: the shapes, and that figures of the whole model are none of its own."""
    name = card.model if card.shapes else f"{card.model}-pruned"
    note = f"{card.model} pruned {words}, and not trained since."
    return dataclasses.replace(card, model=name, metrics={}, note=note, shapes=shapes_of(pruned))


def _torch_pruning() -> Any:
    try:
        import torch_pruning
    except ModuleNotFoundError:
        raise FovealError(
            "to prune: expected torch-pruning to be installed, got none; pip install foveal[prune]"
        ) from None
    return torch_pruning
