"""Padding mask: sample b has lengths[b] real keys; the rest is filler that nobody looks at.

    keeps(b, j) = j < lengths_b

Paper: Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz Kaiser, Illia
    Polosukhin (2017). Attention is all you need. NeurIPS. arXiv:1706.03762.
Departs from the paper: nothing. A sample of length 0 sees nothing, and its output is 0.
Cost: Σ_b lengths_b · N pairs.
Example: padding([7, 4, 0])
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from foveal.core.mask import Mask, Predicate, expect_whole
from foveal.errors import FovealError, expect


class padding(Mask):
    batched = True

    def __init__(self, lengths: Tensor | Sequence[int]) -> None:
        self.lengths = lengths if isinstance(lengths, Tensor) else _written(lengths)
        whole = self.lengths.dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
        expect(
            self.lengths.dim() == 1 and whole,
            "padding's lengths",
            "one integer for each sample, (B,)",
            _described(self.lengths),
        )

        if (
            self.lengths.device.type == "cpu" and not torch.compiler.is_compiling()
        ):  # elsewhere a look would make the device wait
            least = int(self.lengths.min()) if len(self.lengths) else 0
            expect(least >= 0, "padding's lengths", "at least 0", least)

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        return j < self.lengths.to(b.device)[b]

    def predicate(self, keys: int, device: torch.device) -> Predicate:
        lengths = self.lengths.to(device)
        return lambda b, h, i, j: j < lengths[b]

    def check(self, batch: int, queries: int, keys: int) -> None:
        count = self.lengths.shape[0]  # len() would make a batch of any size a constant of an exported graph
        if count != batch:  # written only then: to write a size down would make it a constant of a compiled graph
            raise FovealError(f"padding's lengths: expected {batch}, one for each sample, got {count}")

    def counted(self, batch: int, queries: int, keys: int) -> int:
        return queries * int(self.lengths.clamp(max=keys).sum())

    def _samples(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        # of shapes only there are no numbers
        lengths = tuple(self.lengths.shape) if self.lengths.is_meta else self.lengths.tolist()
        return f"padding({lengths})"


def _written(lengths: object) -> Tensor:
    if not isinstance(lengths, Iterable) or isinstance(lengths, str):
        raise FovealError(f"padding's lengths: expected one integer for each sample, got {type(lengths).__name__}")
    numbers = list(lengths)
    for sample, number in enumerate(numbers):
        expect_whole(number, f"padding's length of sample {sample}")
    return torch.tensor(numbers, dtype=torch.long, device="cpu")


def _described(lengths: Tensor) -> str:
    return f"shape {tuple(lengths.shape)} of {lengths.dtype}"
