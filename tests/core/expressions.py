"""Random masks for hypothesis: every pattern, and any & | ~ of them."""

import operator
from functools import reduce

import torch
from hypothesis import strategies as st

from foveal.core.algebra import And, Not, Or, Starting
from foveal.core.mask import Mask
from foveal.mask import bigbird, causal, local, longformer, padding, prefix, random, strided, to_global

small = st.integers(0, 5)
patterns = st.one_of(
    st.just(causal),
    st.builds(local, small),
    st.builds(prefix, small),
    st.builds(strided, st.integers(1, 7)),
    st.builds(random, st.integers(0, 3), seed=st.integers(0, 2), block=st.integers(1, 3)),
    st.builds(to_global, st.integers(0, 3)),
    st.builds(longformer, small, st.integers(0, 2)),
    st.builds(bigbird, small, st.integers(0, 2), st.integers(0, 2)),
)


def _grown(inner):
    return st.one_of(
        st.builds(operator.and_, inner, inner),
        st.builds(operator.or_, inner, inner),
        st.builds(operator.invert, inner),
        st.builds(lambda mask, row: mask.starting_at(row), inner, st.integers(0, 9)),
    )


masks = st.recursive(patterns, _grown, max_leaves=5)


def with_padding(samples):
    """Masks whose samples may differ."""
    lengths = st.lists(st.integers(0, 40), min_size=samples, max_size=samples)
    return st.recursive(st.one_of(patterns, st.builds(padding, lengths)), _grown, max_leaves=5)


def meaning(mask: Mask, queries: int, keys: int, batch: int = 1) -> torch.Tensor:
    """The mask by the meaning of its signs, from the dense forms of its patterns: (B, N, M)."""
    if isinstance(mask, And):
        return reduce(operator.and_, (meaning(part, queries, keys, batch) for part in mask.parts))
    if isinstance(mask, Or):
        return reduce(operator.or_, (meaning(part, queries, keys, batch) for part in mask.parts))
    if isinstance(mask, Not):
        return ~meaning(mask.inner, queries, keys, batch)
    if isinstance(mask, Starting):
        return meaning(mask.inner, queries + mask.row, keys, batch)[:, mask.row :]
    return samples(mask.dense(queries, keys, batch=batch), batch)


def samples(dense: torch.Tensor, batch: int) -> torch.Tensor:
    """(N, M) or (B, 1, N, M) → (B, N, M)."""
    return (dense if dense.dim() == 2 else dense[:, 0]).expand(batch, -1, -1)
