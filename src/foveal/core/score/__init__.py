"""The scores, one file each: how well a query fits a key.

The file's name is the score's name, and `foveal.score.additive` finds it by that.

    e = score(q, k),   q (B, H, N, D), k (B, G, M, D) → (B, H, N, M),   G divides H

`foveal.weigh(e, v)` makes attention of any of them. A new file here is a new score, with no change elsewhere.
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

from torch import Tensor

from foveal.errors import expect, unknown


def names() -> list[str]:
    """The names of all scores there are: the files of this folder."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def check_heads(q: Tensor, k: Tensor, *, same_width: bool = True) -> None:
    """Raise a FovealError unless the heads of k fit those of q: what every score of q and k asks first."""
    expect(q.dim() == 4, "q", "4 axes (B, H, N, D)", tuple(q.shape))
    expect(k.dim() == 4, "k", "4 axes (B, G, M, D)", tuple(k.shape))
    expect(q.shape[0] == k.shape[0], "k", f"batch {q.shape[0]} as q", tuple(k.shape))
    expect(
        k.shape[1] > 0 and q.shape[1] % k.shape[1] == 0,
        "k",
        f"a number of heads that divides q's {q.shape[1]}",
        tuple(k.shape),
    )
    expect(not same_width or q.shape[3] == k.shape[3], "k", f"width {q.shape[3]} as q", tuple(k.shape))


if not TYPE_CHECKING:  # a type checker that saw it would take any name

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(str(unknown("score", name, names())))


# Python binds a folder's file to its name on import, so the functions are bound over them here, once and for all.
for _name in names():
    globals()[_name] = getattr(importlib.import_module(f"{__name__}.{_name}"), _name)
