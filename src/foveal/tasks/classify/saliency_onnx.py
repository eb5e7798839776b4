"""Where an exported model looked, and what its answer loses without a cell: the maps of explain/look.py without torch, and without gradients."""

import numpy as np

from foveal.data.pack import paint
from foveal.errors import expect
from foveal.runtime.image import Pixels
from foveal.runtime.onnx_names import LOOKED
from foveal.runtime.saliency_maps import Array, SaliencyMaps, shares
from foveal.tasks.classify.predict_onnx import OnnxClassifier


def attention_maps(model: OnnxClassifier, photo: Pixels) -> SaliencyMaps:
    """The attention maps of one image of the card's side (S, S, 3)."""
    session, config = model.session, model.card.config
    expect(LOOKED in session.outputs, session.file, "a model whose attention tells where it looked, such as an icam", model.card.model)
    expect({"heads", "layers"} <= set(config), session.file, "heads and layers in its card's config", sorted(config))
    maps = np.asarray(session(photo[None], [LOOKED])[LOOKED], np.float64)  # (1, M, N, P)
    heads = [_heads(model, layer) for layer in range(int(config["layers"]))]
    first, side = maps.shape[1] - sum(heads), round(maps.shape[3] ** 0.5)
    expect(first in (0, 1) and side * side == maps.shape[3], session.file, f"maps of {len(heads)} layers of {heads} heads", maps.shape)
    grids = maps.reshape(*maps.shape[:3], side, side)
    named = {"first query": grids[:, :1]} if first else {}
    for layer, count in enumerate(heads):
        start = first + sum(heads[:layer])
        named[f"layer {layer + 1}"] = grids[:, start : start + count]
    return SaliencyMaps(named)


def _heads(model: OnnxClassifier, layer: int) -> int:
    """Of one layer: as many as the config says, unless some were pruned, which the shape of its last matrix tells."""
    config = model.card.config
    pruned = model.card.shapes.get(f"layers.{layer}.attention.layer.out.weight")
    return int(config["heads"]) if pruned is None else pruned[-1] * int(config["heads"]) // int(config["width"])


def occlusion(model: OnnxClassifier, photo: Pixels, sides: tuple[int, int]) -> Array:
    """(C, rows, columns): what each class's probability loses when a cell is shown in the image's mean colour.

    Where the card has boxes to blank, the file paints them itself: a cell inside of them loses nothing, as in explain/look.py.
    """
    rows, columns = sides
    photo = photo.copy()
    paint(photo[None], model.card.recipe.get("blank", ()))  # what the model never sees is in no mean
    height, width = photo.shape[:2]
    owner = (np.arange(height) * rows // height)[:, None] * columns + np.arange(width) * columns // width
    plain = photo.mean((0, 1)).round().astype(np.uint8)
    hidden = [photo, *(np.where((owner == cell)[..., None], plain, photo) for cell in range(rows * columns))]
    probabilities = model.probabilities(
        np.concatenate([model.logits(hidden[start : start + model.batch]) for start in range(0, len(hidden), model.batch)])
    )
    return shares(np.clip(probabilities[:1] - probabilities[1:], 0, None).T.reshape(-1, rows, columns))
