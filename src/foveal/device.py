"""Which device a word means. Every command and every function asks here, so that a word means the same everywhere."""

import torch

from foveal.errors import FovealError, short_repr

AUTO = "auto"  # a GPU if there is one


def choose(name: str = AUTO) -> torch.device:
    """The device of this name, if this machine has it.

    A GPU is not touched by asking: processes may be started before it is used.
    """
    if name == AUTO:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    reason = ""
    try:
        place = torch.device(name)
        if place.type == "meta":
            reason = "; meta has shapes and no numbers"
        elif place.type != "cuda":
            torch.zeros(1, device=place)
        elif (place.index or 0) >= torch.cuda.device_count():
            reason = f"; torch finds {torch.cuda.device_count() or 'no'} GPU"
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:  # each backend raises its own
        reason = f"; {' '.join(str(error).split())[:120]}"
    if reason:
        raise FovealError(
            f"device: expected auto, or one that this machine has, such as cpu or cuda, got {short_repr(name)}{reason}"
        )
    return place
