"""What an entry of the catalogue looks like: its example is run,
and what it does to (queries × keys) becomes a picture.

A mask is drawn as it is, a position as the matrix that it adds (or the similarity that it leaves), everything that
attends as its weights, a gate on feature maps as what comes in, the part of it that passes, and what comes out.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from foveal.errors import FovealError, expect
from foveal.report.catalogue import Entry, Ran, run_example
from foveal.report.picture import Matrix, Picture

if TYPE_CHECKING:
    from torch import Tensor

    from foveal.core.mask import Mask
    from foveal.position.position import Position

SIZE, GRID, LARGEST = 24, 16, 2048  # tokens on a side; on the side of an image; the most that can be asked for
PANELS = 14  # the most panels that one picture carries


def portrait(entry: Entry, size: int | None = None) -> Picture | str:
    """The entry's picture, or a sentence that says why there is none."""
    import torch

    expect(size is None or 1 <= size <= LARGEST, "--size", f"1 … {LARGEST}", size)
    if size is not None and entry.kind not in ("mask", "position"):
        raise FovealError(
            f"--size: expected a mask or a position, got {entry.name!r}, whose picture is of the sample tokens; leave "
            "it out"
        )
    with torch.no_grad():
        if entry.kind == "mask":
            return _of_mask(entry, run_example(entry).output, size)
        if entry.kind == "position":
            return _of_position(entry, run_example(entry), size)
        return _of_weights(entry)


def _of_mask(entry: Entry, mask: "Mask", size: int | None) -> Picture:
    batch, side = (1, size) if size and not mask.batched else _fitting(mask, size)
    kept = mask.dense(side, side, batch=batch)
    panels = kept.expand(batch, 1, side, side)[:, 0]
    labels = tuple(f"sample {number}" for number in range(batch)) if batch > 1 else ()
    return Picture(
        tuple(_array(panels[:PANELS])), entry.name, entry.title, labels[:PANELS], low="may not", high="may look"
    )


def _fitting(mask: "Mask", size: int | None) -> tuple[int, int]:
    """A batch and a side that the mask accepts: padding wants as many samples as it has lengths,
    a window its own grid.
    """
    for side in [size] if size else [SIZE, *range(1, 65)]:
        for batch in range(1, 9):
            try:
                mask.check(batch, side, side)
            except FovealError:
                continue
            return batch, side
    return 1, size or SIZE


def _of_position(entry: Entry, ran: Ran, size: int | None) -> Picture | str:
    from foveal.position.position import Position

    position: Position = ran.module
    if position.term() is not None:
        return _of_term(entry, ran, size)
    if type(position).rotate is not Position.rotate:
        return _of_rotation(entry, position, ran.inputs[0].shape[-1], size or SIZE)
    if type(position).embed is not Position.embed:
        return _of_embedding(entry, ran, size)
    return "nothing to draw: it leaves tokens and scores as they are"


def _of_embedding(entry: Entry, ran: Ran, size: int | None) -> Picture:
    """What is added to tokens of zeros: positions × channels, or a map for each channel of a grid.

    A learned one in the size it learns.
    """
    import torch

    shape = ran.inputs[0].shape
    own = size is None and any(True for _ in ran.module.parameters())
    if len(shape) == 4:
        height, width = shape[1:3] if own else (size or GRID, size or GRID)
        added = ran.module(torch.zeros(1, height, width, shape[3]))[0].permute(2, 0, 1)[:PANELS]
        labels = tuple(f"channel {number}" for number in range(len(added)))
        return _signed(entry, added, labels=labels, rows="y", columns="x")
    length = shape[1] if own else size or SIZE
    return _signed(entry, ran.module(torch.zeros(1, length, shape[2])), rows="positions", columns="channels")


def _of_term(entry: Entry, ran: Ran, size: int | None) -> Picture:
    """The term for queries of ones, one panel per head; in the example's size if it fits no other."""
    import torch

    q = ran.inputs[0]
    try:
        bias = ran.module.bias(torch.ones(1, q.shape[1], size or SIZE, q.shape[3]), keys=size or SIZE)[0]
    except FovealError:
        if size:
            raise
        bias = ran.module.bias(torch.ones_like(q[:1]), **ran.options)[0]
    if bool((bias == bias[:1]).all()):
        return _signed(entry, bias[:1])
    return _signed(entry, bias[:PANELS], labels=tuple(f"head {head}" for head in range(len(bias[:PANELS]))))


def _of_rotation(entry: Entry, position: "Position", width: int, size: int) -> Picture:
    """q_i·k_j / D of vectors of ones after the turn: it depends on the distance alone."""
    import torch

    ones = torch.ones(1, 1, size, width)
    q, k = position.rotate(ones, ones)
    return _signed(entry, (q @ k.transpose(-1, -2))[0] / width)


def _of_weights(entry: Entry) -> Picture | str:
    """The weights of the first sample, one panel per head. A score becomes weights first."""
    from torch import nn

    from foveal.core.attend import normalise
    from foveal.core.watch import watch

    ran = run_example(entry)
    if entry.kind == "score":
        return _amounts(entry, {"": normalise(ran.output)[0]})
    try:
        if isinstance(ran.module, nn.Module):
            with watch(ran.module) as seen:
                ran.module(*ran.inputs, **ran.options)
        else:
            with watch() as seen:
                run_example(entry)
    except FovealError:  # the example itself has just run: what is left is that nothing was seen
        return _of_gate(entry, ran) if entry.kind == "map" else "it makes no weights of queries on keys"
    return _amounts(entry, {name: record.weights[0] for name, record in seen.items()})


def _of_gate(entry: Entry, ran: Ran) -> Picture | str:
    """Two channels of the first sample, each as |input|, gate and |output|: the third is the product of the others."""
    if getattr(ran.output, "shape", None) == ran.inputs[0].shape and ran.output.dim() == 4:
        maps, output = (_array(values[0, :2]) for values in (ran.inputs[0], ran.output))
        gates, largest = output / maps, np.abs(maps).max()
        if ((gates >= 0) & (gates <= 1 + 1e-6)).all():
            shown = np.stack([np.abs(maps) / largest, gates, np.abs(output) / largest], 1)  # channels, then what
            names = [
                name
                for c in range(len(maps))
                for name in (f"|input {c}| / {largest:.2g}", f"gate {c}", f"|output {c}| / {largest:.2g}")
            ]
            panels = np.clip(shown.reshape(-1, *maps.shape[1:]), 0, 1)
            return Picture(tuple(panels), entry.name, entry.title, tuple(names), rows="y", columns="x")
    return "it makes neither weights of queries on keys nor gates between 0 and 1"


def _amounts(entry: Entry, attentions: "dict[str, Tensor]") -> Picture:
    """Weights (H, N, M) of one attention or several, scaled to the largest of them."""
    panels = [panel for weights in attentions.values() for panel in _array(weights)][:PANELS]
    labels = [
        f"head {head}" + (f", {name}" if len(attentions) > 1 else "")
        for name, weights in attentions.items()
        for head in range(len(weights))
    ]
    largest = max(float(panel.max()) for panel in panels)
    shown = [np.clip(panel / (largest or 1), 0, 1) for panel in panels]
    return Picture(
        shown, entry.name, entry.title, tuple(labels[:PANELS]) if len(shown) > 1 else (), high=f"{largest:.2g}"
    )


def _signed(entry: Entry, values: "Tensor", **words: Any) -> Picture:
    """Values around zero, (H, N, M), scaled to the largest of them."""
    largest = float(values.abs().max())
    shown = np.clip(_array(values) / (largest or 1) / 2 + 0.5, 0, 1)
    return Picture(
        tuple(shown), entry.name, entry.title, low=f"{-largest:.2g}", high=f"{largest:.2g}", signed=True, **words
    )


def _array(values: "Tensor") -> Matrix:
    return np.asarray(values.detach().double().cpu().numpy())
