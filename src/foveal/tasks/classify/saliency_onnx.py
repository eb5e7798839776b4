"""Saliency maps of an exported classifier: its attention, and occlusion, without torch and without gradients."""

import numpy as np

from foveal.errors import expect
from foveal.runtime.blank import paint
from foveal.runtime.image import Pixels
from foveal.runtime.onnx_names import LOOKED
from foveal.runtime.saliency_maps import Array, SaliencyMaps, Sides, coarse, finer, shares, square_of
from foveal.tasks.classify.predict import OnnxClassifier


def attention_maps(model: OnnxClassifier, frame: Pixels) -> SaliencyMaps:
    """The attention maps of one image of the card's side (S, S, 3); an error where the file has none."""
    session, config = model.session, model.card.config
    expect(
        LOOKED in session.outputs,
        session.file,
        "a model whose attention looks at the image, such as an icam",
        model.card.model,
    )
    expect({"heads", "layers"} <= set(config), session.file, "heads and layers in its card's config", sorted(config))
    maps = np.asarray(session(frame[None], [LOOKED])[LOOKED], np.float64)  # (1, M, N, P)
    heads = [_heads(model, layer) for layer in range(int(config["layers"]))]
    first, side = maps.shape[1] - sum(heads), round(maps.shape[3] ** 0.5)
    expect(
        first in (0, 1) and side * side == maps.shape[3],
        session.file,
        f"maps of {len(heads)} layers of {heads} heads",
        maps.shape,
    )
    grids = maps.reshape(*maps.shape[:3], side, side)
    named = {"first query": grids[:, :1]} if first else {}
    for layer, count in enumerate(heads):
        start = first + sum(heads[:layer])
        named[f"layer {layer + 1}"] = grids[:, start : start + count]
    return SaliencyMaps(named)


def _heads(model: OnnxClassifier, layer: int) -> int:
    """Of one layer: as many as the config says, unless some were pruned, which the shape of its last matrix shows."""
    config = model.card.config
    pruned = model.card.shapes.get(f"layers.{layer}.attention.layer.out.weight")
    return int(config["heads"]) if pruned is None else pruned[-1] * int(config["heads"]) // int(config["width"])


def occlusion(model: OnnxClassifier, frame: Pixels, sides: Sides) -> Array:
    """(C, rows, columns): what each class's probability loses when a cell is hidden under the image's mean colour.

    Where the card has boxes to blank, the file paints them itself: a cell inside of them loses nothing, as in
    explain/saliency.py.
    """
    rows, columns = coarse(sides)
    frame = frame.copy()
    paint(frame[None], model.card.blank)  # what the model never sees is in no mean
    owner = square_of(frame.shape[0], frame.shape[1], sides)
    plain = frame.mean((0, 1)).round().astype(np.uint8)
    hidden = [frame, *(np.where((owner == cell)[..., None], plain, frame) for cell in range(rows * columns))]
    parts = [model.decided(hidden[start : start + model.batch])[0] for start in range(0, len(hidden), model.batch)]
    probability = np.concatenate(parts)
    lost = np.clip(probability[:1] - probability[1:], 0, None).T.reshape(-1, rows, columns)
    return shares(finer(lost, sides))
