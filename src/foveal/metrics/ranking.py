"""How well one class is ranked: one sorting by score, then areas under any weights.

    AP  = Σ_n (R_n − R_{n−1})·P_n = Σ_{i positive} w_i·P(score of i) / Σ_{i positive} w_i
    AUC = Σ_{i positive} w_i·(weight of the negatives below i + ½·weight of those level with i)
          / (Σ positive · Σ negative)

P_n and R_n are precision and recall when everything down to the n-th distinct score counts as positive: equal scores
are one threshold, so the order of the images never matters. No interpolation. AP is undefined (nan) without a
positive, AUC without a positive and a negative.
"""

import numpy as np
from numpy.typing import NDArray

from foveal.errors import expect

Array = NDArray[np.float64]


class Ranking:
    """Images of one class from the highest score to the lowest,
    with where each group of equal scores starts and ends.
    """

    def __init__(self, truth: NDArray[np.bool_], score: Array) -> None:
        expect(
            truth.ndim == 1 and truth.shape == score.shape,
            "a ranking",
            "truth and score (N,)",
            f"{truth.shape} and {score.shape}",
        )
        self.order = np.argsort(-score, kind="stable")
        self.score = score[self.order]
        self.truth = truth[self.order].astype(bool)
        different = self.score[1:] != self.score[:-1]
        self.ends = np.flatnonzero(np.append(different, True))  # the last place of each group of equal scores
        self._positive = np.flatnonzero(self.truth)
        group = np.searchsorted(self.ends, self._positive)  # of each positive
        self._end = self.ends[group]
        self._start = np.append(0, self.ends[:-1] + 1)[group]
        self._before = np.searchsorted(group, group, side="left")  # positives above the group
        self._through = np.searchsorted(group, group, side="right")  # positives down to its end

    def areas(self, weight: Array | None = None) -> tuple[Array, Array]:
        """AP and AUC; weight (N,) gives two numbers, (R, N) gives two arrays (R,)."""
        ranked = np.ones(len(self.order)) if weight is None else np.take(weight, self.order, axis=-1)
        mine = ranked[..., self._positive]
        # how much weight stands above each place; how much of it is positive
        seen, found = (_from_zero(ranked), _from_zero(mine))
        hits, all_ = found[..., self._through], seen[..., self._end + 1]
        # no weight so far: no weight here, so 0 counts
        precision = np.divide(hits, all_, out=np.zeros_like(hits), where=all_ > 0)
        wrong = (
            all_ - hits + seen[..., self._start] - found[..., self._before]
        ) / 2  # negatives above, and half of those level
        positive, negative = found[..., -1], seen[..., -1] - found[..., -1]
        ap = ratio((mine * precision).sum(-1), positive)
        auc = ratio((mine * (negative[..., None] - wrong)).sum(-1), positive * negative)
        return ap, auc

    def precision_recall(self) -> tuple[Array, Array]:
        """(recall, precision) at every distinct score, from the strictest threshold.

        The curve is a staircase with these corners.
        """
        hits = np.cumsum(self.truth)[self.ends]
        return ratio(hits, np.full(hits.shape, self.truth.sum())), hits / (self.ends + 1.0)

    def roc(self) -> tuple[Array, Array]:
        """(false positive rate, true positive rate) from (0, 0) to (1, 1); straight lines between them."""
        hits = np.append(0, np.cumsum(self.truth)[self.ends])
        wrong = np.append(0, self.ends + 1) - hits
        return ratio(wrong, np.full(hits.shape, wrong[-1])), ratio(hits, np.full(hits.shape, hits[-1]))


def _from_zero(values: Array) -> Array:
    """The sum of everything before each place: one longer than the values, and it opens with 0."""
    sums = np.zeros((*values.shape[:-1], values.shape[-1] + 1))
    np.cumsum(values, axis=-1, out=sums[..., 1:])
    return sums


def ratio(part: NDArray[np.generic], whole: NDArray[np.generic]) -> Array:
    """part / whole, and nan where there is nothing to divide by."""
    above, below = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.asarray(np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0))
