"""How torch-pruning is to see a module: what it is called with, what stays, and what must lose the same channels.

torch-pruning reads off the graph of gradients which layers share channels. It does not see that channels belong to
heads, that a gate is as wide as what it lets through, nor how an ICAM's queries lie behind each other: that is said
here.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from torch import Tensor, nn

from foveal.errors import FovealError, expect, short_repr
from foveal.layers.gated import Gated
from foveal.layers.multihead import MultiHead
from foveal.models.efficientnet_lite import EfficientNetLite
from foveal.models.icam import CrossBlock, Icam
from foveal.models.mbconv import MBConv, Stages
from foveal.models.patches import cut, grid_of
from foveal.models.peer import Peer
from foveal.models.shrink import query_of

# Of one group, as torch-pruning follows it. The largest of swin-micro has 193 links; a layer may have an output for
# each of 262,144 subwords.
MOST_LINKS, MOST_CHANNELS = 10_000, 2**18


@dataclass(frozen=True)
class Inputs:
    """What a module is called with."""

    positional: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)

    def call(self, module: Any) -> Any:
        return module(*self.positional, **self.named)


@dataclass(frozen=True)
class Way:
    kept: list[nn.Module]  # layers whose outputs stay
    heads: dict[nn.Module, int] = field(default_factory=dict)  # projection → how many heads must lose the same channels
    # layer → how many equal parts of its outputs must lose the same channels
    alike: dict[nn.Module, int] = field(default_factory=dict)
    forward: Callable[[Any, Inputs], Any] = lambda module, inputs: [
        one for one in tensors(inputs.call(module)) if one.grad_fn is not None
    ]


def inputs_of(module: nn.Module, example: Any = None) -> Inputs:
    """The example that is given, a tensor, a tuple of arguments or a dict of named ones; else the module's own."""
    expect(isinstance(module, nn.Module), "to prune", "a torch.nn.Module", short_repr(module))
    if example is None:
        expect(
            callable(getattr(module, "example", None)),
            "to prune",
            f"an example of what a {type(module).__name__} takes",
            "none",
            "give example=, such as torch.zeros(1, 3, 224, 224)",
        )
        example = cast("Any", module).example()
    if isinstance(example, Mapping):
        return Inputs(named=dict(example))
    return Inputs(tuple(example) if isinstance(example, (tuple, list)) else (example,))


def tensors(output: Any) -> list[Tensor]:
    """All tensors of an output, however it is packed."""
    if isinstance(output, Tensor):
        return [output]
    parts = output.values() if isinstance(output, Mapping) else output if isinstance(output, (list, tuple)) else ()
    return [one for part in parts for one in tensors(part)]


def is_known(module: nn.Module) -> bool:
    """Whether what may be pruned of it is written down here; of any other module it is found out."""
    return isinstance(module, (Icam, EfficientNetLite, Peer))


def way_of(module: nn.Module) -> Way:
    if isinstance(module, Icam):
        return _way_of_icam(module)
    if isinstance(module, EfficientNetLite):
        return Way([module.head])
    if isinstance(module, Peer):
        last = module.net.classifier
        return Way([last if isinstance(last, nn.Linear) else last[-1]], _heads(module.net))
    # foveal's attention loses whole heads, see deploy/prune.py; that it stays keeps the width of tokens as well.
    kept: list[nn.Module] = [part for part in module.modules() if _has_heads_of_ours(part)]
    alike: dict[nn.Module, int] = {part.inner: 2 for part in module.modules() if isinstance(part, Gated)}
    # torch's own attention is one layer, as wide as its tokens: these lose the same channels of each head.
    alike |= {part: part.num_heads for part in module.modules() if isinstance(part, nn.MultiheadAttention)}
    return Way(kept, _heads(module), alike)


def _has_heads_of_ours(part: nn.Module) -> bool:
    ours = type(part).__module__.startswith("foveal.layers.")
    return isinstance(part, MultiHead) or (ours and hasattr(part, "heads"))


def _heads(module: nn.Module) -> dict[nn.Module, int]:
    """Projections of transformers' attention, with their heads."""
    heads: dict[nn.Module, int] = {}
    for part in module.modules():
        if (query := query_of(part)) is not None:
            count = cast("int", part.num_attention_heads)
            shared = cast("int", getattr(part, "num_key_value_heads", count))
            others = [getattr(part, name) for name in ("k_proj", "key", "v_proj", "value") if hasattr(part, name)]
            heads |= {query: count, **dict.fromkeys(others, shared)}
    return heads


def _way_of_icam(model: Icam) -> Way:
    """The width of tokens stays: positions, heads and queries are made for it.

    What sees pixels, the gated networks and the head lose channels. Φ's map keeps its own where attention stands
    behind it, which is made for them.
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
        *([model.pooled.linear] if model.pooled is not None else []),
        *([model.out] if model.config.queries > 1 else []),
    ]
    if not isinstance(model.attention, nn.Identity):
        own = isinstance(model.phi, Stages)
        expect(own, "to prune", "an Icam with a Φ of its own, or without attention", f"Φ {model.config.phi}")
        rest += [model.attention, _last_layer(cast("Stages", model.phi))]
    asks = cast("nn.Linear", getattr(model.first, "q", model.embed))

    def forward(icam: Icam, inputs: Inputs) -> Tensor:
        """Who reads whose channels, without attention: that joins nothing but tokens, or places of a map."""
        patches, rows, columns = cut(inputs.positional[0], icam.config.patch)
        grid = grid_of(icam.pool(icam.phi(patches)), rows, columns)
        queries = icam.embed(icam.norm(icam.mixer(grid))).mean((1, 2))[:, None] + asks(icam.first.latent)
        for block in blocks:
            queries = block.feed_forward(queries)
        return icam.answer(queries, grid)

    gated: dict[nn.Module, int] = {network.inner: 2 for network in networks}  # what passes, and how much of it
    return Way([*tokens, *rest], alike=gated, forward=forward)


def _last_layer(stages: Stages) -> nn.Module:
    """The convolution that makes the last map."""
    last = stages[-1]
    return last.project[0] if isinstance(last, MBConv) else cast("nn.Sequential", last)[0]


def torch_pruning() -> Any:
    try:
        import torch_pruning
    except ModuleNotFoundError:
        raise FovealError(
            "to prune: expected torch-pruning to be installed, got none; pip install foveal[prune]"
        ) from None
    group = torch_pruning.dependency.Group
    if not hasattr(group.add_dep, "__wrapped__"):
        group.add_dep = _bounded(group.add_dep)
    return torch_pruning


def _bounded(add: Callable[..., None]) -> Callable[..., None]:
    """What adds a link to a group of torch-pruning's, for groups that end: where a module's axes are reshaped into each
    other, it follows the same channels in circles, ever more links or ever more channels of them.
    """

    @functools.wraps(add)
    def add_link(group: Any, dep: Any, idxs: Any) -> None:
        ends = len(group) < MOST_LINKS and len(idxs) <= MOST_CHANNELS
        got, do = "one whose channels it follows without end", "prune its layers one by one, each with its own example"
        expect(ends, "to prune", "a module that torch-pruning can trace", got, do)
        add(group, dep=dep, idxs=idxs)

    return add_link
