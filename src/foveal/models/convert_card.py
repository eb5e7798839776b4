"""What stands beside the weights of an image model, carried over between our card and transformers' files: the names
of the classes (config.json), and how pixels become input (preprocessor_config.json).
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from foveal.runtime.card import ImageCard

BILINEAR = 2  # Pillow's number, which transformers writes
PROCESSORS = {"pvt": "PvtImageProcessor", "maskformer": "MaskFormerImageProcessor"}


def labels_of(card: ImageCard) -> dict[str, Any]:
    """Fields of transformers' config."""
    return {
        "id2label": {str(number): name for number, name in enumerate(card.classes)},
        "label2id": {name: number for number, name in enumerate(card.classes)},
    }


def preprocessor_of(card: ImageCard) -> dict[str, Any]:
    """transformers' preprocessor_config.json."""
    return {
        "image_processor_type": PROCESSORS.get(card.family, "ViTImageProcessor"),
        "do_resize": True,
        "size": {"height": card.size, "width": card.size},
        "resample": BILINEAR,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(card.mean),
        "image_std": list(card.std),
    }


def card_fields(hf_config: Mapping[str, Any], preprocessor: Mapping[str, Any], classes: int) -> dict[str, Any]:
    """Fields of our card, as far as these files have them; what they hold is the card's to check.

    A name that several classes have, as in ImageNet, gets its number.
    """
    fields: dict[str, Any] = {}
    listed = hf_config.get("id2label")
    if isinstance(listed, dict) and {str(key) for key in listed} == {str(number) for number in range(classes)}:
        named = {str(key): str(name) for key, name in listed.items()}
        names = [named[str(number)] for number in range(classes)]
        times = Counter(names)
        fields["classes"] = tuple(
            name if times[name] == 1 else f"{name} ({number})" for number, name in enumerate(names)
        )
    for ours, theirs in (("mean", "image_mean"), ("std", "image_std")):
        if isinstance(preprocessor.get(theirs), list):
            fields[ours] = tuple(preprocessor[theirs])
    return fields
