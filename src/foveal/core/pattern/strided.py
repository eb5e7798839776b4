"""Strided mask: every step-th key, counted from the query (dilated attention).

    keeps(i, j) = (i − j) mod step = 0

Paper: Rewon Child, Scott Gray, Alec Radford, Ilya Sutskever (2019). Generating long sequences with sparse
    transformers. arXiv:1904.10509.
Departs from the paper: not causal by itself; the paper's second head is `strided(step) & causal`.
Cost: N·M/step pairs.
Example: strided(step=4)
"""

from dataclasses import dataclass

from torch import Tensor

from foveal.core.mask import Mask, expect_whole


@dataclass(frozen=True)
class strided(Mask):
    step: int

    def __post_init__(self) -> None:
        expect_whole(self.step, "strided's step", least=1)

    @property
    def period(self) -> int:  # type: ignore[override]
        return self.step

    def keeps(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor, keys: int) -> Tensor:
        return (i - j) % self.step == 0

    def full(self, first: int, last: int, keys: int) -> bool:
        return self.step == 1

    def counted(self, batch: int, queries: int, keys: int) -> int:
        (a, b), (c, d) = divmod(queries, self.step), divmod(keys, self.step)
        # Σ over residues of the queries times the keys that have it
        return self.step * a * c + a * d + b * c + min(b, d)
