"""Every operation of torch that an attention is made of, recorded below whatever library calls it.

A tensor is copied the moment it is seen, since q may be scaled in place later.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass
class Projection:
    """A product with a parameter: source (R, C_in) · weight (C_in, C_out) + bias → result (R, C_out), R = B·N rows."""

    moment: int
    source: Tensor
    weight: Tensor
    result: Tensor
    live: Tensor  # the result itself, by which the bias that is added to it is found


@dataclass
class Softmax:
    moment: int
    scores: Tensor  # the axis that is normalised comes last


@dataclass
class Product:
    """A batch of products without a parameter: q kᵀ, or α v."""

    moment: int
    left: Tensor
    right: Tensor
    result: Tensor


class Recorder(TorchDispatchMode):
    """Sees every operation of torch, below whatever library calls it."""

    def __init__(self, module: nn.Module | None, rows: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rows, self.moment = rows, 0
        self.parameters = {_storage(parameter) for parameter in (module.parameters() if module else ())}
        self.projections: list[Projection] = []
        self.products: list[Product] = []
        self.softmaxes: list[Softmax] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.moment += 1
        name = func.overloadpacket.__name__
        if name in ("mm", "bmm"):
            self._product(args[0], args[1], result)
        elif name in ("addmm", "baddbmm"):
            self._product(args[1], args[2], result)
        elif name in ("add", "add_") and isinstance(args[1], Tensor):
            self._bias(args[0], args[1], result)
        elif name in ("_softmax", "_safe_softmax"):
            self.softmaxes.append(Softmax(self.moment, args[0].detach().transpose(args[1], -1).clone()))
        elif name.startswith("_scaled_dot_product_flash_attention") and "backward" not in name:
            self._fused(args[0].detach(), args[1].detach(), *args[4:5], **(kwargs or {}))
        return result

    def _product(self, left: Tensor, right: Tensor, result: Tensor) -> None:
        if _storage(right) in self.parameters:
            rows = result.detach().reshape(-1, result.shape[-1])
            if len(rows) == self.rows and right.numel() == left.shape[-1] * rows.shape[1]:
                source, weight = left.detach().reshape(self.rows, -1), right.detach().reshape(left.shape[-1], -1)
                self.projections.append(Projection(self.moment, source.clone(), weight, rows.clone(), result))
        elif result.dim() == 3:
            self.products.append(
                Product(self.moment, left.detach().clone(), right.detach().clone(), result.detach().clone())
            )

    def _fused(
        self,
        q: Tensor,
        k: Tensor,
        is_causal: bool = False,
        scale: float | None = None,
        attn_mask: Tensor | None = None,
        **_: Any,
    ) -> None:
        """A kernel that a module insists on shows no scores: they are what it is documented to make."""
        scores = (
            q
            @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).transpose(-1, -2)
            * (q.shape[-1] ** -0.5 if scale is None else scale)
        )
        if attn_mask is not None:
            scores = scores + attn_mask
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        self.softmaxes.append(Softmax(self.moment, scores.masked_fill(later, -torch.inf) if is_causal else scores))

    def _bias(self, left: Tensor, right: Tensor, result: Tensor) -> None:
        if _storage(right) in self.parameters:
            for projection in self.projections[-1:]:
                if _storage(projection.live) == _storage(left) and result.numel() == projection.result.numel():
                    projection.result, projection.live = (
                        result.detach().reshape(projection.result.shape).clone(),
                        result,
                    )


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
