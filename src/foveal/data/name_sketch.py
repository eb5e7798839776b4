"""Which images a model was trained on, in a few kilobytes: the smallest hashes of their names.

    S = the K smallest of h(name) over the training images;   an image was among them if h(its name) is in S
    of more than K training images, S answers for the share of all names whose hash is at most max S, and the count is
    scaled up by that share

h is the first 40 bits of SHA-256. A set of up to K names is answered exactly, but for a collision once in 10⁹ names.
Paper: Ziv Bar-Yossef et al. (2002). Counting distinct elements in a data stream. RANDOM (the K minimum values).
"""

import base64
import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.errors import is_integer

TRAINED = "trained_on"  # in a card's data: the names of the training images
KEPT, BYTES = 2048, 5
RANGE = 2 ** (8 * BYTES)


def sketch(names: Iterable[bytes]) -> dict[str, Any]:
    """For a card: how many names there were, and the smallest hashes of them as base64."""
    hashes = _hashes(names)
    smallest = np.unique(hashes)[:KEPT]
    content = b"".join(int(one).to_bytes(BYTES, "big") for one in smallest)
    return {"names": len(hashes), "hashes": base64.b64encode(content).decode()}


def count_known(facts: object, names: Iterable[bytes]) -> tuple[int, bool] | None:
    """(how many of these names are in the sketch, whether that is exact).

    None where the facts are no sketch: a card may come from anybody.
    """
    kept = _read(facts)
    if kept is None or not len(kept):
        return None
    assert isinstance(facts, dict)
    hashes = _hashes(names)
    exact = facts["names"] <= KEPT
    answered = hashes if exact else hashes[hashes <= kept[-1]]
    hits = int(np.isin(answered, kept).sum())
    return (hits, True) if exact else (min(len(hashes), round(hits * RANGE / (int(kept[-1]) + 1))), hits == 0)


def _hashes(names: Iterable[bytes]) -> NDArray[np.int64]:
    return np.array([int.from_bytes(hashlib.sha256(name).digest()[:BYTES], "big") for name in names], np.int64)


def _read(facts: object) -> NDArray[np.int64] | None:
    if not isinstance(facts, dict) or not isinstance(facts.get("hashes"), str) or not is_integer(facts.get("names")):
        return None
    try:
        content = base64.b64decode(facts["hashes"], validate=True)
    except ValueError:
        return None
    parts = [content[place : place + BYTES] for place in range(0, len(content) - BYTES + 1, BYTES)]
    return np.array([int.from_bytes(part, "big") for part in parts], np.int64)
