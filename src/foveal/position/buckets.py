"""Bucketed relative bias (T5): each head learns a number for each bucket of distances; near distances have their own,
far ones share.

    e_ij = q_i·k_j + T[bucket(j − i), head]
    bucket(d) = d if d < E, else min(E + ⌊(B − E)·log(d/E)/log(max_distance/E)⌋, B − 1),   E = ⌊B/2⌋

Symbols: `Buckets` looks both ways, B is half of the buckets and the other half is for j > i; `CausalBuckets` looks
    back only, B is all of them and every j > i is in bucket 0. d = |j − i|.
Paper: Colin Raffel, Noam Shazeer, Adam Roberts, Katherine Lee, Sharan Narang, Michael Matena, Yanqi Zhou, Wei Li,
    Peter J. Liu (2020). Exploring the limits of transfer learning with a unified text-to-text transformer. JMLR.
    arXiv:1910.10683.
Departs from the paper: nothing in the term. T5 leaves q·k unscaled: for its weights give `attend` scale=1.
Cost: O(N·M), once for all samples of a batch; buckets·heads parameters.
Example: Buckets(heads=6, buckets=8, max_distance=16).bias(q, keys=7)
"""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from foveal.core.term import Term
from foveal.core.trace import outside_of_trace
from foveal.errors import expect, expect_integer
from foveal.position.biased import Biased, without_heads

__all__ = ["Buckets", "CausalBuckets"]


class Buckets(Biased):
    """Buckets for both sides: what an encoder uses."""

    sides = 2

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128) -> None:
        super().__init__()
        name, least = type(self).__name__, 2 * self.sides
        expect_integer(heads, f"{name}'s heads")
        some = "an even number, at least 4" if self.sides == 2 else "at least 2"
        expect_integer(buckets, f"{name}'s buckets", least, some)
        expect(buckets % self.sides == 0, f"{name}'s buckets", some, buckets)
        own = buckets // self.sides // 2
        expect_integer(
            max_distance, f"{name}'s max_distance", own + 1, f"above {own}, the distances with their own bucket"
        )
        self.heads, self.buckets, self.max_distance = heads, buckets, max_distance
        self.table = nn.Parameter(nn.init.trunc_normal_(torch.empty(buckets, heads), std=0.02))

    def term(self, query_start: int = 0) -> Term:
        # No buffer: it would not be saved, so a model that is built without memory and loaded would have none.
        numbers = bucket_of(self.buckets, self.max_distance, self.sides, str(self.table.device))
        return BucketTerm(self.table, numbers, query_start)

    def drop_heads(self, indices: list[int]) -> None:
        self.table, self.heads = without_heads(self.table, 1, indices)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, buckets={self.buckets}, max_distance={self.max_distance}"


class CausalBuckets(Buckets):
    """Buckets for the past only: what a decoder uses, with the mask `causal`."""

    sides = 1


class BucketTerm(Term):
    """T[bucket(j − i), head], for queries the first of which stands at query_start."""

    def __init__(self, table: Tensor, bucket_of: Tensor, query_start: int = 0) -> None:
        self.tensors = (table,)
        self.bucket_of, self.start, self.reach = bucket_of, query_start, len(bucket_of) // 2

    def scores(self, q: Tensor, rows: Tensor, columns: Tensor, *tensors: Tensor) -> Tensor:
        by_distance = tensors[0].to(q.dtype)[self.bucket_of]  # (2·max_distance + 1, H)
        return by_distance[self._place(rows[:, None], columns)].permute(2, 0, 1)[None]

    def check(self, q: Tensor, keys: int) -> None:
        heads = self.tensors[0].shape[1]
        expect(q.shape[1] == heads, "Buckets's heads", heads, q.shape[1])

    def score_mod(self, q: Tensor) -> Callable[..., Tensor]:
        by_distance = self.tensors[0][self.bucket_of]

        def modified(score: Tensor, _b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score + by_distance[self._place(i, j), h]

        return modified

    def _place(self, i: Tensor, j: Tensor) -> Tensor:
        return (j - (i + self.start)).clamp(-self.reach, self.reach) + self.reach


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def bucket_of(buckets: int, max_distance: int, sides: int, device: str) -> Tensor:
    """The bucket of every j − i from −max_distance to max_distance.

    Every farther one is in the last bucket of its side.
    """
    # The numbers stay after the call, so they must be a plain tensor, also when the caller is being traced or infers.
    with _disable_current_modes(), torch.inference_mode(False), outside_of_trace():
        return _bucket_of(buckets, max_distance, sides, device)


@lru_cache(maxsize=32)
def _bucket_of(buckets: int, max_distance: int, sides: int, device: str) -> Tensor:
    a_side = buckets // sides
    behind = [bucket(distance, a_side, max_distance) for distance in range(max_distance + 1)]
    ahead = [a_side + number for number in behind[1:]] if sides == 2 else [0] * max_distance
    return torch.tensor(behind[::-1] + ahead, device=device)


def bucket(distance: int, buckets: int, max_distance: int) -> int:
    """The bucket of a distance ≥ 0 among the buckets of one side, in integers:
    a logarithm may fall on the wrong side of a limit.
    """
    own = buckets // 2  # E: as many distances have their own bucket
    if distance < own:
        return distance
    far, shared = 0, buckets - own
    # (distance/E)^shared ≥ (max_distance/E)^(far + 1), times the denominators
    while far < shared - 1 and distance**shared * own ** (far + 1) >= max_distance ** (far + 1) * own**shared:
        far += 1
    return own + far
