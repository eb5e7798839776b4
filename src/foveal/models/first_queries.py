"""Where ICAM's first queries come from: learned vectors, or what these find when they look at the image."""

import torch
from torch import Tensor, nn

from foveal.core.attend import attend


class Static(nn.Module):
    """The first queries are the same for every image: Q⁰ = W_emb(Q_latent)."""

    def __init__(self, features: int, width: int, queries: int) -> None:
        super().__init__()
        self.latent = nn.Parameter(nn.init.xavier_uniform_(torch.empty(queries, features)))

    def forward(self, embed: nn.Module, keys: Tensor, content: Tensor, values: Tensor | None = None) -> Tensor:
        """keys: K (B, P, C); content: the same tokens without their position; values: V, the keys unless given."""
        queries: Tensor = embed(self.latent)
        # len() would make a batch of any size a constant of an exported graph
        return queries.expand(keys.shape[0], -1, -1)


class Adaptive(Static):
    """The first queries look at the image: Q⁰ = softmax(W_emb(Q_latent) Kᵀ/√C) V."""

    def forward(self, embed: nn.Module, keys: Tensor, content: Tensor, values: Tensor | None = None) -> Tensor:
        queries = super().forward(embed, keys, content)
        return attend(queries[:, None], keys[:, None], (keys if values is None else values)[:, None])[:, 0]


class Projected(Static):
    """Adaptive, with projections of its own, and values that never know a position:
    Q⁰ = softmax(W_q(Q_latent) (W_k K)ᵀ/√C) W_v X.
    """

    def __init__(self, features: int, width: int, queries: int) -> None:
        super().__init__(features, width, queries)
        self.q, self.k, self.v = nn.Linear(features, width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, embed: nn.Module, keys: Tensor, content: Tensor, values: Tensor | None = None) -> Tensor:
        queries = super().forward(self.q, keys, content)
        return attend(queries[:, None], self.k(keys)[:, None], self.v(content)[:, None])[:, 0]


class ProjectedStatic(Static):
    """Static, with a projection of its own: what is left of `Projected` when the queries do not look at the image."""

    def __init__(self, features: int, width: int, queries: int) -> None:
        super().__init__(features, width, queries)
        self.q = nn.Linear(features, width)

    def forward(self, embed: nn.Module, keys: Tensor, content: Tensor, values: Tensor | None = None) -> Tensor:
        return super().forward(self.q, keys, content)


FIRST: dict[str, type[Static]] = {
    "adaptive": Adaptive,
    "projected": Projected,
    "static": Static,
    "projected-static": ProjectedStatic,
}
