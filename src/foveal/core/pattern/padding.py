"""Padding mask: sample b has lengths[b] real keys; the rest is filler that nobody looks at.

    keeps(b, j) = j < lengths_b

Paper: Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz Kaiser, Illia Polosukhin (2017). Attention is all you need. NeurIPS. arXiv:1706.03762.
Departs from the paper: nothing. A sample of length 0 sees nothing, and its output is 0.
Cost: Σ_b lengths_b · N pairs.
Example: padding([7, 4, 0])
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from foveal.core.mask import Mask
from foveal.errors import expect


class padding(Mask):
    batched = True

    def __init__(self, lengths: Tensor | Sequence[int]) -> None:
        self.lengths = lengths if isinstance(lengths, Tensor) else torch.tensor(lengths)
        whole = not self.lengths.is_floating_point() and self.lengths.dtype != torch.bool
        expect(self.lengths.dim() == 1 and whole, "padding's lengths", "one whole number for each sample, (B,)", _described(self.lengths))

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        return j < self.lengths.to(b.device)[b]

    def check(self, batch: int, queries: int, keys: int) -> None:
        expect(len(self.lengths) == batch, "padding's lengths", f"{batch}, one for each sample", len(self.lengths))

    def __repr__(self) -> str:
        return f"padding({self.lengths.tolist()})"


def _described(lengths: Tensor) -> str:
    return f"shape {tuple(lengths.shape)} of {lengths.dtype}"
