"""Key-value cache: decoding computes each key and value once, and writes it beside those of the steps before.

    step t:   K_t = [K_{t−1}; k_t];   V_t = [V_{t−1}; v_t];   y_t = softmax(q_t K_tᵀ/√D) V_t

Symbols: B batch, G heads of keys and values, M the capacity, D the width of a head.
Paper: Noam Shazeer (2019). Fast transformer decoding: one write-head is all you need. arXiv:1911.02150.
Departs from the paper: nothing. The room for all steps is taken at the beginning, so that a step copies one token and
    not the whole past.
Cost: O(B·G·D) time per step; 2·B·G·M·D numbers of memory.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from foveal.errors import FovealError, expect, expect_integer, short_repr


class Memory(NamedTuple):
    """Another source's keys (B, G, M, D) and values (B, G, M, D), projected once:
    what a decoder reads again at every step.
    """

    k: Tensor
    v: Tensor


class Cache:
    """Room for the keys and values of `capacity` tokens.

    It is meant for inference: a gradient passes through one `append` only.
    """

    def __init__(
        self,
        batch: int,
        heads: int,
        capacity: int,
        width: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        for name, number in (("batch", batch), ("heads", heads), ("capacity", capacity), ("width", width)):
            expect_integer(number, f"the cache's {name}")
        self.k = torch.zeros(batch, heads, capacity, width, dtype=dtype, device=device)
        self.v = torch.zeros_like(self.k)
        self.capacity = capacity
        self.length = 0

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write the next keys and values, (B, G, n, D).

        The answer is a view of all there are so far, (B, G, length, D).
        """
        if not isinstance(k, Tensor) or not isinstance(v, Tensor):
            raise FovealError(
                f"cache: expected k and v to be tensors (B, G, n, D), got {short_repr(k)} and {short_repr(v)}"
            )
        batch, heads, _, width = self.k.shape
        # Each size is compared: a single head would broadcast into all of the cache's heads without a word.
        fits = k.dim() == 4 and k.shape == v.shape == (batch, heads, k.shape[2], width)
        if not fits or k.dtype != self.k.dtype:
            raise FovealError(
                f"cache: expected k and v of shape ({batch}, {heads}, n, {width}) and {self.k.dtype}, "
                f"got {tuple(k.shape)} and {tuple(v.shape)} of {k.dtype}"
            )
        start, count = self.length, k.shape[2]
        end = start + count
        if end > self.capacity:
            raise FovealError(
                f"cache: expected at most {self.capacity} tokens, got {start} + {count}; make it with a larger capacity"
            )
        # narrow and copy_ are cheaper than indexing, and a step of decoding is short.
        self.k.narrow(2, start, count).copy_(k)
        self.v.narrow(2, start, count).copy_(v)
        self.length = end
        return self.k.narrow(2, 0, end), self.v.narrow(2, 0, end)

    def reset(self) -> None:
        """Forget everything; the room stays."""
        self.k, self.v = self.k.detach(), self.v.detach()
        self.length = 0

    def reorder(self, index: Tensor) -> None:
        """Sample b becomes what sample index[b] was: the step of a beam search."""
        batch = self.k.shape[0]
        counts = isinstance(index, Tensor) and index.dtype in (torch.int32, torch.int64)
        expect(
            counts,
            "the cache's new order",
            "a tensor of integers",
            index.dtype if isinstance(index, Tensor) else short_repr(index),
        )
        expect(
            tuple(index.shape) == (batch,),
            "the cache's new order",
            f"one sample for each of {batch}",
            tuple(index.shape),
        )
        moved = None
        if (
            index.device.type == "cpu" and not torch.compiler.is_compiling()
        ):  # elsewhere a look would make the device wait
            # Most beams stay where they are: only what moves is copied.
            moved = (index != torch.arange(batch)).nonzero()[:, 0]
            if not len(moved):
                return
        for room in (self.k, self.v):
            filled = room[:, :, : self.length]
            if moved is None:
                filled.copy_(filled.index_select(0, index))
            else:
                filled.index_copy_(0, moved, filled.index_select(0, index[moved]))

    def keep(self, index: Tensor) -> None:
        """Only the samples of these numbers stay, in this order; the room of the others is given back."""
        self.k, self.v = self.k.index_select(0, index), self.v.index_select(0, index)

    def __repr__(self) -> str:
        return f"Cache({self.length} of {self.capacity} tokens, {tuple(self.k.shape)})"
