"""Non-local block: every place takes a weighted mean of all places, however far, and adds it to itself.

    y_i = 1/𝒞 Σ_j f(x_i, x̂_j) g(x̂_j);   z_i = x_i + Norm(W_z y_i)
    gaussian:            f = exp(x_iᵀ x̂_j),              𝒞 = Σ_j f
    embedded_gaussian:   f = exp(θ(x_i)ᵀ φ(x̂_j)),        𝒞 = Σ_j f
    dot_product:         f = θ(x_i)ᵀ φ(x̂_j),             𝒞 = M
    concatenation:       f = ReLU(w_fᵀ [θ(x_i), φ(x̂_j)]), 𝒞 = M

Symbols: i one of N = h·w places, or T·h·w of a video; x̂ is x, or its maxima over squares, M places; θ, φ and g linear
    maps from C to the hidden width, C/2 unless given.
Paper: Xiaolong Wang, Ross Girshick, Abhinav Gupta, Kaiming He (2018). Non-local neural networks. CVPR.
    arXiv:1711.07971.
Departs from the paper: squares that reach over the border count what there is, where the paper's code leaves the last
    row or column unseen. As in its equation and its code x is pooled, where a sentence of it pools φ and g. Its code
    divides θᵀφ by √hidden in the embedded Gaussian; its equation does not, and neither does this.
Cost: O(N·M·hidden) time, O(N + M) memory in a fused kernel; dot_product O((N + M)·hidden²) where that is less;
    concatenation O(N·M) memory. 4·C·hidden parameters; gaussian has 2·C·hidden.
Example: NonLocal(6)(maps)
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from foveal.core.attend import attend
from foveal.core.trace import is_exporting, is_tracing
from foveal.errors import expect, short_repr, unknown
from foveal.layers.attention import check_sizes
from foveal.vision.frames import check_video
from foveal.vision.maps import check_maps


class Gaussian(nn.Module):
    """softmax_j(x_iᵀ x̂_j): the places are compared as they are."""

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        # Under autocast g has 16 bits, and the rest has not.
        return attend(x[:, None], keys[:, None], values[:, None].to(x.dtype), scale=1.0)[:, 0]


class _Embedded(nn.Module):
    """θ and φ, which the other forms share."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        check_sizes(self, width=width, hidden=hidden)
        self.width = width
        self.query = nn.Linear(width, hidden)  # θ
        self.key = nn.Linear(width, hidden)  # φ


class EmbeddedGaussian(_Embedded):
    """softmax_j(θ(x_i)ᵀ φ(x̂_j)): attention with one head and no scale."""

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return attend(self.query(x)[:, None], self.key(keys)[:, None], values[:, None], scale=1.0)[:, 0]


class DotProduct(_Embedded):
    """θ(x_i)ᵀ φ(x̂_j) / M, which is linear: (θ φᵀ) g and θ (φᵀ g) are the same, and the cheaper one is computed."""

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        q: Tensor = self.query(x)  # (B, N, D)
        k: Tensor = self.key(keys).transpose(1, 2)  # (B, D, M)
        places, (hidden, others), width = q.shape[1], k.shape[1:], values.shape[2]
        values = values / others
        # On one thread, 7 × 7 places at width 512 take 83 µs pair by pair instead of 590 by sums, and 28 × 28 at width
        # 32 take 55 by sums instead of 920. A graph that is exported is for any size, so it may not decide by one.
        graph = is_exporting() or is_tracing()
        if not graph and places * others * (hidden + width) < (places + others) * hidden * width:
            return (q @ k) @ values
        return q @ (k @ values)


class Concatenation(_Embedded):
    """ReLU(w_fᵀ [θ(x_i), φ(x̂_j)]) / M. w_fᵀ[a, b] is a sum of two numbers, so no pair of vectors is ever joined."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(width, hidden)
        bound = (2 * hidden) ** -0.5
        self.joint = nn.Parameter(torch.empty(2 * hidden).uniform_(-bound, bound))  # w_f

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        of_query, of_key = self.joint.chunk(2)
        a, b = self.query(x) @ of_query, self.key(keys) @ of_key  # (B, N), (B, M)
        return functional.relu(a[:, :, None] + b[:, None]) @ (values / keys.shape[1])


FORMS: dict[str, Callable[[int, int], nn.Module]] = {
    "gaussian": lambda width, hidden: Gaussian(),
    "embedded_gaussian": EmbeddedGaussian,
    "dot_product": DotProduct,
    "concatenation": Concatenation,
}


class NonLocal(nn.Module):
    """Maps (B, width, h, w), or frames of a video (B, T, width, h, w) all at once → the same shape.

    The scale of the norm begins at 0, or W_z where the norm has none: the block begins as the identity, and can be put
    into a model that is trained already.
    """

    def __init__(
        self,
        width: int,
        hidden: int | None = None,
        *,
        form: str | nn.Module = "embedded_gaussian",
        pool: int = 1,
        norm: nn.Module | None = None,
    ) -> None:
        """form: a name of FORMS, or a layer (x (B, N, C), x̂ (B, M, C), g(x̂) (B, M, hidden)) → y (B, N, hidden).

        pool: the side of the squares of a map whose maxima are the keys. norm: BatchNorm2d(width) unless given.
        """
        super().__init__()
        hidden = max(1, width // 2) if hidden is None else hidden
        check_sizes(self, width=width, hidden=hidden, pool=pool)
        if isinstance(form, str) and form not in FORMS:
            raise unknown("form of NonLocal", form, FORMS)
        self.form = FORMS[form](width, hidden) if isinstance(form, str) else form
        self.norm = nn.BatchNorm2d(width) if norm is None else norm
        for name, part in (("form", self.form), ("norm", self.norm)):
            fits = isinstance(part, nn.Module)
            expect(fits, f"NonLocal's {name}", "a layer (torch.nn.Module)", short_repr(part))
        if isinstance(self.form, _Embedded):
            expect(self.form.width == width, "NonLocal's form", f"one of width {width}", self.form.width)
        self.width, self.pool = width, pool
        self.value = nn.Linear(width, hidden)  # g
        self.out = nn.Linear(hidden, width)  # W_z
        scale = getattr(self.norm, "weight", None)
        for zero in (self.out.weight, self.out.bias) if scale is None else (scale,):
            nn.init.zeros_(zero)

    def forward(self, maps: Tensor) -> Tensor:
        if isinstance(maps, Tensor) and maps.dim() == 5:
            check_video(self, maps, self.width, self.out.weight)
        else:
            check_maps(self, maps, self.width, self.out.weight)
        batch, width, (h, w) = maps.shape[0], self.width, maps.shape[-2:]
        count = maps.shape[1] if maps.dim() == 5 else 1  # T
        frames = maps.reshape(batch * count, width, h, w)
        x = keys = _tokens(frames, count)  # (B, N, C)
        if self.pool > 1:
            keys = _tokens(functional.max_pool2d(frames, self.pool, ceil_mode=True), count)  # (B, M, C)
        y = self.form(x, keys, self.value(keys))  # (B, N, hidden)
        # All frames of a sample are one tall map to the norm, which may look at samples one by one.
        change: Tensor = self.norm(self.out(y).transpose(1, 2).reshape(batch, width, count * h, w))
        return maps + change.view(batch, width, count, h, w).transpose(1, 2).reshape(maps.shape)


def _tokens(frames: Tensor, count: int) -> Tensor:
    """(B·T, C, h, w) → (B, T·h·w, C)."""
    rows, width, h, w = frames.shape
    return frames.flatten(2).transpose(1, 2).reshape(rows // count, count * h * w, width)
