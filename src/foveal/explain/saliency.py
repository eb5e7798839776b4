"""Saliency maps: where a model looked, over the image's cells.

    attention   α of every layer, head and query on the patches:         the weights themselves, they sum to 1
    gradient    Σ_c |x ⊙ ∂logit/∂x|, averaged over each cell:            input × gradient
    occlusion   max(0, p − p with the cell in the image's mean colour):  what the answer loses without the cell

The first is what was looked at, and not what was made of it; the others belong to one answer. How well any of them
explains is measured in `faithfulness.py`. Gradient and occlusion are scaled to sum to 1, unless they are 0 everywhere.

Papers: Shrikumar et al., Learning Important Features Through Propagating Activation Differences, 2017
(arXiv:1704.02685); Zeiler and Fergus, Visualizing and Understanding Convolutional Networks, 2014 (arXiv:1311.2901)
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foveal.core.watch import Record, watch
from foveal.errors import FovealError, expect
from foveal.models.icam import Icam
from foveal.runtime.saliency_maps import Array, SaliencyMaps, Sides, coarse, finer, shares, square_of


def attention_maps(model: nn.Module, images: Tensor) -> SaliencyMaps:
    """The attention maps of normalised images (B, 3, S, S).

    An Icam's queries look at the cells. Of a ViT, its class token is the query, and the cells get the share that it
    gives to patches.
    """
    expect(images.dim() == 4 and len(images) > 0, "images to explain", "(B, 3, S, S)", tuple(images.shape))
    try:
        with torch.no_grad(), watch(model) as seen:
            model(images)
    except FovealError as error:
        raise FovealError(f"no attention map can be had of this model: {error}") from None
    if isinstance(model, Icam):
        rows, columns = sides_of(model, images)
        records = of_queries(seen)
        expect(bool(records), "no attention map can be had of this model", "queries that look at the image", "none")
        return SaliencyMaps(
            {
                _named(name): _array(record.weights).reshape(*record.shape[:3], rows, columns)
                for name, record in records.items()
            }
        )
    maps = {name: grid for name, record in seen.items() if (grid := _of_class_token(record)) is not None}
    if not maps or len({grid.shape[-2:] for grid in maps.values()}) > 1:
        raise FovealError(
            "no attention map can be had of this model: expected queries that look at a square of patches, as an "
            "Icam's or a ViT's, got "
            + "; ".join(
                f"{name} with {record.shape[2]} queries on {record.shape[3]} keys"
                for name, record in list(seen.items())[:3]
            )
        )
    return SaliencyMaps(maps)


def of_queries(seen: Mapping[str, Record]) -> dict[str, Record]:
    """Of what was seen of an Icam: where its queries looked. Attention on Φ's map looks inside of one patch."""
    return {name: record for name, record in seen.items() if name.split(".")[0] in ("first", "layers")}


def sides_of(model: nn.Module, images: Tensor) -> Sides:
    """How many cells a map of this model has; 7 × 7 for one without such attention."""
    if isinstance(model, Icam):
        patch, pool = model.config.patch, model.config.pool
        return images.shape[2] // patch * pool, images.shape[3] // patch * pool
    try:
        return attention_maps(model, images[:1]).sides
    except FovealError:
        return 7, 7


def gradient(
    model: nn.Module, images: Tensor, target: Tensor | Sequence[int] | int, sides: Sides | None = None
) -> Array:
    """(B, rows, columns): input × gradient for the logit of `target`, one class or one for each image (B,)."""
    rows, columns = sides or sides_of(model, images)
    with torch.inference_mode(False), torch.enable_grad():
        inputs = images.detach().clone().requires_grad_()
        logits = model(inputs)
        chosen = _targets(target, logits)
        (slope,) = torch.autograd.grad(logits.gather(1, chosen[:, None]).sum(), inputs)
    saliency = (inputs.detach() * slope).abs().sum(1, keepdim=True)  # (B, 1, S, S)
    return shares(_array(F.adaptive_avg_pool2d(saliency, (rows, columns))[:, 0]))


def occlusion(
    probability: Callable[[Tensor], Array], images: Tensor, sides: Sides, batch: int = 16, blank: Tensor | None = None
) -> Array:
    """(B, C, rows, columns): what each class's probability loses when a cell is hidden. probability: images (n, 3,
    S, S) → (n, C).

    Of more than 14 × 14 cells, squares of them are hidden together, at most 14 × 14, and share what that loses.

    blank (S, S): pixels that the model is never given. They stay as they are: what was not seen cannot be lost.
    """
    rows, columns = coarse(sides)
    owner = torch.from_numpy(square_of(images.shape[2], images.shape[3], sides)).to(images.device)
    cells = torch.eye(rows * columns, dtype=torch.bool, device=images.device)[:, owner]  # (squares, S, S)
    cells = (cells if blank is None else cells & ~blank)[:, None]
    lost = []
    for image in images[:, None]:
        plain = image.mean((2, 3), keepdim=True)
        hidden = torch.cat([image, torch.where(cells, plain, image)])  # (1 + squares, 3, S, S)
        found = np.concatenate([probability(some) for some in hidden.split(batch)])
        lost.append(np.clip(found[:1] - found[1:], 0, None).T.reshape(-1, rows, columns))
    return shares(finer(np.stack(lost), sides))


def cell_of(height: int, width: int, sides: Sides) -> Tensor:
    """(height, width): the number of the cell that a pixel lies in, row by row."""
    down = torch.arange(height) * sides[0] // height
    right = torch.arange(width) * sides[1] // width
    return down[:, None] * sides[1] + right


def _targets(target: Tensor | Sequence[int] | int, logits: Tensor) -> Tensor:
    chosen = torch.as_tensor(target, device=logits.device)
    count, classes = logits.shape
    whole = not (chosen.is_floating_point() or chosen.is_complex() or chosen.dtype == torch.bool) and chosen.shape in (
        (),
        (count,),
    )
    inside = whole and bool(((chosen >= 0) & (chosen < classes)).all())
    expect(inside, "the answer to explain", f"classes from 0 to {classes - 1}, one or {count}", target)
    return chosen.long().expand(count)


def _named(name: str) -> str:
    """`layers.0.attention.layer` is what the code calls layer 1."""
    parts = name.split(".")
    return (
        f"layer {int(parts[1]) + 1}"
        if parts[0] == "layers" and len(parts) > 1 and parts[1].isdecimal()
        else f"{name} query"
    )


def _of_class_token(record: Record) -> Array | None:
    """The first row of N = 1 + side² tokens without its own column, (B, H, 1, side, side).

    None for another kind of attention.
    """
    batch, heads, queries, keys = record.shape
    side = math.isqrt(keys - 1)
    if queries != keys or side * side != keys - 1 or side < 2:
        return None
    return shares(_array(record.weights[:, :, :1, 1:]).reshape(batch, heads, 1, side, side))


def _array(values: Tensor) -> Array:
    return np.asarray(values.detach().double().cpu().numpy())
