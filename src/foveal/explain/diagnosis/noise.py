"""Dropout seen and silenced below every library: each draw of a Bernoulli variable is counted,
and may be replaced by its mean.

    mask ~ Bernoulli(1 − p),  y = x·mask/(1 − p);   with the mean in place of the draw, y = x

It works on whatever draws: nn.Dropout, a fused kernel, or a mask that somebody draws by hand with torch.bernoulli.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Noise(TorchDispatchMode):
    """Remembers with which probability something was dropped."""

    silent = False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dropped: list[float] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name == "bernoulli_" and not isinstance(
            p := args[1] if len(args) > 1 else kwargs.get("p", 0.5), torch.Tensor
        ):
            self.dropped.append(1 - p)
            return args[0].fill_(p) if self.silent else func(*args, **kwargs)
        if name == "bernoulli":
            self.dropped.append(1 - float(args[0].double().mean()))
            return args[0].clone() if self.silent else func(*args, **kwargs)
        if name == "native_dropout" and args[2]:
            self.dropped.append(float(args[1]))
            return (
                (args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)) if self.silent else func(*args, **kwargs)
            )
        return func(*args, **kwargs)


class Quiet(Noise):
    """Nothing is dropped."""

    silent = True
