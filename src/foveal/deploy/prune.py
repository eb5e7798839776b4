"""Structured pruning to a target: whole channels go until a model has the parameters, or the work, of another one.

Then both can be compared.

    keep_g = max(1, ⌊C_g (1 − r)⌋) channels of each group g, those of the largest importance;
             r the smallest with cost(r) ≤ target
    l1     importance of a channel = mean of |w| sums over the layers that make or read it
    fpgm   importance of a channel = mean over those layers of Σ_j ‖|w| − |w_j|‖, how far it is from the others:
           what is near to all can be spared

Symbols: a group is what must lose the same channels, such as all that a residual sum joins; C_g its channels, of
attention those of one head; foveal's own attention loses whole heads, and C_g counts them; r the share that is cut, one
for all groups, found by bisection. Where the next smaller r costs too much, the first groups have that one, as many as
the target allows; where one group's channel is more than the target misses, that group stays and the others are
searched again. Of a module that is not known here, the groups are found out: those that can lose a channel, and it
still runs and answers in the same shapes. Papers: Hao Li, Asim Kadav, Igor Durdanovic,
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn

from foveal.deploy.measure.cost import flops, parameters
from foveal.deploy.prune_way import Inputs, inputs_of, is_known, tensors, torch_pruning, way_of
from foveal.errors import FovealError, expect, is_integer, short_repr, unknown
from foveal.layers.multihead import MultiHead
from foveal.models.heads import head_weights
from foveal.models.shrink import fit, query_of
from foveal.models.store import shapes_of
from foveal.runtime.card import Card

Kind = TypeVar("Kind", bound=Card)
UNITS = ("parameters", "flops")
METHODS = ("l1", "fpgm")
STEPS = 12  # of the bisection: shares differ by 1 in 4096, finer than one channel in any layer here
NEAR, ROUNDS = 0.95, 4  # of the target; how often the search goes on without the group whose channels are too dear


def prune(model: nn.Module, target: int, unit: str = "parameters", by: str = "l1", *, example: Any = None) -> nn.Module:
    """A copy of a module with at most `target` parameters or flops, whose outputs have the shapes that they had.

    example: what it is called with, where it has no `example()` of its own.
    """
    if unit not in UNITS:
        raise unknown("unit of a target", unit, UNITS)
    if by not in METHODS:
        raise unknown("importance of channels", by, METHODS)
    expect(is_integer(target) and target > 0, "the target", f"a number of {unit} above 0", short_repr(target))
    inputs = inputs_of(model, example)
    groups = _groups(model, inputs)
    cost = counter(unit, inputs)
    whole = cost(model)
    expect(target < whole, "the target", f"fewer {unit} than the model's own {whole:,}", f"{target:,}")
    least = cost(_pruned(model, [1] * len(groups), groups, "l1", inputs))
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
        return cost(_pruned(model, kept, groups, "l1", inputs))  # whichever channels go, as many are left

    for _ in range(ROUNDS):
        share = _least(2**STEPS - 1, lambda share: cost_of(left(share)) <= target)
        tail = _least(len(groups), lambda tail: cost_of(left(share, tail)) <= target)  # noqa: B023 — called at once
        kept = left(share, tail)
        if cost_of(kept) >= NEAR * target:
            break
        fixed[len(groups) - tail] = kept[-tail]
    pruned = _pruned(model, kept, groups, by, inputs)
    if not is_known(model):
        expect_same_shapes(model, pruned, inputs)
    return pruned


def _least(high: int, fits: Callable[[int], bool]) -> int:
    """The smallest number that fits, of 1 to high, which does."""
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def counter(unit: str, inputs: Inputs | None = None) -> Callable[[nn.Module], int]:
    """What counts a model's parameters, or its flops of one sample as it takes them."""
    if unit == "parameters":
        return parameters

    def count(model: nn.Module) -> int:
        given = inputs_of(model) if inputs is None else inputs
        return flops(model, *given.positional, **given.named)

    return count


def _pruned(
    model: nn.Module, kept: Sequence[int], groups: Sequence[tuple[str, int]], by: str, inputs: Inputs | None = None
) -> nn.Module:
    """A copy with so many channels, or heads, in each group."""
    inputs = inputs_of(model) if inputs is None else inputs
    learns = [parameter.requires_grad for parameter in model.parameters()]
    model = copy.deepcopy(model).eval()
    parts = dict(model.named_modules())
    before = {module: width for module in model.modules() if (width := _score_width(module))}
    cut = {parts[name]: (full, count) for (name, full), count in zip(groups, kept, strict=True) if count < full}
    # Half a channel more, so that no rounding takes one away.
    shares = {part: 1 - (count + 0.5) / full for part, (full, count) in cut.items() if not isinstance(part, MultiHead)}
    if shares:
        _pruner(model, by, shares, inputs).step()
    for part, (full, count) in cut.items():
        if isinstance(part, MultiHead):
            drop_least_heads(part, full - count, by)
    fit(model)
    with torch.no_grad():
        for module, width in before.items():
            if not hasattr(module, "scaling"):  # it divides scores by √ of its head width, which is smaller now
                for tensor in _queries(module):
                    tensor *= math.sqrt(_score_width(module) / width)
    for parameter, flag in zip(model.parameters(), learns, strict=True):
        parameter.grad = None
        parameter.requires_grad_(flag)
    return model


def _score_width(module: nn.Module) -> int:
    """Channels of the queries of others' attention; 0 of any other module."""
    if isinstance(module, nn.MultiheadAttention):
        return int(module.embed_dim)
    query = query_of(module)
    return 0 if query is None else int(query.out_features)


def _queries(module: nn.Module) -> list[torch.Tensor]:
    """What makes the queries of others' attention."""
    if not isinstance(module, nn.MultiheadAttention):
        return list(query_of(module).parameters())
    weight = module.q_proj_weight if module.in_proj_weight is None else module.in_proj_weight
    return [tensor[: module.embed_dim] for tensor in (weight, module.in_proj_bias) if tensor is not None]


def drop_least_heads(layer: MultiHead, count: int, by: str) -> None:
    """Cut out so many heads of keys and values, with the heads of queries that read them: those that matter least."""
    numbers = head_weights(layer).abs()  # (G, n)
    importance = numbers.mean(1) if by == "l1" else torch.cdist(numbers, numbers).sum(1)
    share = layer.heads // layer.groups
    groups = importance.argsort()[:count].tolist()
    layer.drop_heads([group * share + head for group in groups for head in range(share)])


def _groups(model: nn.Module, inputs: Inputs | None = None) -> list[tuple[str, int]]:
    """The name of a layer of each group that can be pruned, and the channels, or heads, of the group."""
    inputs = inputs_of(model) if inputs is None else inputs
    whole, model = model, copy.deepcopy(model).eval()
    names = {module: name for name, module in model.named_modules()}
    with traced(model):
        pruner = _pruner(model, "l1", {}, inputs)
        found = [
            (names[group[0].dep.target.module], _channels(pruner, group))
            for group in pruner.DG.get_all_groups(
                ignored_layers=pruner.ignored_layers, root_module_types=pruner.root_module_types
            )
        ]
    if not is_known(model):
        found = _harmless(whole, [group for group in found if group[1] > 1], inputs)
        found += [
            (name, part.groups)
            for name, part in model.named_modules()
            if isinstance(part, MultiHead) and part.groups > 1
        ]
    expect(bool(found), "to prune", "a model with layers that can lose channels", "one without")
    return found


def _channels(pruner: Any, group: Any) -> int:
    """How many channels a group has, of those that must lose the same ones together one part only."""
    return int(pruner.DG.get_out_channels(group[0].dep.target.module) // pruner._get_channel_groups(group))


def _harmless(model: nn.Module, groups: Sequence[tuple[str, int]], inputs: Inputs) -> list[tuple[str, int]]:
    """Those that can lose a channel, and the model still runs and answers in the same shapes.

    Its last layers cannot, nor what its code cuts into parts of a fixed width. A group that can go with all others is
    not asked alone.
    """

    def harmless(some: Sequence[tuple[str, int]]) -> bool:
        try:
            pruned = _pruned(model, [size - 1 for _, size in some], some, "l1", inputs)
            expect_same_shapes(model, pruned, inputs)
        except Exception:  # noqa: BLE001 — code of anybody may fail in any way on channels that are not there
            return False
        before = dict(model.named_modules())
        after = dict(pruned.named_modules())
        return all(parameters(after[name]) < parameters(before[name]) for name, _ in some)  # torch-pruning did follow

    if harmless(groups):
        return list(groups)
    return [group for group in groups if harmless([group])]


def expect_same_shapes(model: nn.Module, pruned: nn.Module, inputs: Inputs) -> None:
    """Raise a FovealError unless a pruned copy runs, and its outputs have the shapes that the model's have."""
    shapes = []
    for one in (model, pruned):
        with torch.no_grad(), traced(one):
            shapes.append([tuple(tensor.shape) for tensor in tensors(inputs.call(copy.deepcopy(one).eval()))])
    expect(shapes[0] == shapes[1], "the outputs after pruning", f"of shapes {shapes[0]}", shapes[1])


@contextmanager
def traced(model: nn.Module) -> Iterator[None]:
    try:
        yield
    except FovealError:
        raise
    except Exception as error:  # noqa: BLE001 — code of anybody may fail in any way
        words = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise FovealError(
            f"to prune: expected a {type(model).__name__} that runs on its example, and that torch-pruning can trace, "
            f"got {words}"
        ) from None


def _pruner(model: nn.Module, by: str, shares: dict[nn.Module, float], inputs: Inputs) -> Any:
    pruning, way = torch_pruning(), way_of(model)
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it warns of every parameter outside of layers
        return pruning.BasePruner(
            model.requires_grad_(True),  # the groups are read off the graph of gradients
            inputs,
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
    known = torch_pruning().importance
    return known.GroupMagnitudeImportance(p=1) if by == "l1" else known.FPGMImportance(p=1)


def pruned_card(card: Kind, pruned: nn.Module, words: str) -> Kind:
    """What the file says of itself: the shapes, and that figures of the whole model are none of its own."""
    name = card.model if card.shapes else f"{card.model}-pruned"
    note = f"{card.model} pruned {words}, and not trained since."
    return dataclasses.replace(card, model=name, metrics={}, note=note, shapes=shapes_of(pruned))
