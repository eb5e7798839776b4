"""How good translations are, as the field counts it: BLEU and chrF by sacrebleu,
whose signature names the variant of BLEU.

    bleu        cased, on the sentences as a person reads them: the first figure
    lowercased  the same on small letters and separated signs: what papers on small sets report
    chrf        F-score of runs of characters, kinder to languages with many endings

Intervals hold 95 % of a bootstrap over sentences. Papers: Kishore Papineni et al. (2002). BLEU. ACL. Maja Popović
(2015). chrF. WMT. Matt Post (2018). A call for clarity in reporting BLEU scores. WMT.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foveal.errors import FovealError, expect

RESAMPLES, SEED = 1000, 12345


@dataclass(frozen=True)
class Score:
    value: float
    low: float | None  # of the interval
    high: float | None
    signature: str


def translation_scores(
    translations: Sequence[str], references: Sequence[str], resamples: int = RESAMPLES
) -> dict[str, Score]:
    """resamples: of the bootstrap for the interval; below 2, there is none."""
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ModuleNotFoundError:
        raise FovealError("BLEU: expected sacrebleu to be installed, got none; pip install foveal[train]") from None
    same = len(translations) == len(references) > 0
    expect(same, "BLEU", f"as many translations as the {len(references)} references, at least one", len(translations))
    metrics = {"bleu": BLEU(), "lowercased": BLEU(lowercase=True), "chrf": CHRF()}
    scores = {}
    for name, metric in metrics.items():
        # What sacrebleu's own corpus_score does, in two steps: its bootstrap cannot add up a resample that scores
        # nothing.
        # of shape (sentences, figures)
        counts = np.array(metric._extract_corpus_statistics(list(translations), [list(references)]))
        value = float(metric._compute_score_from_stats(counts.sum(0).tolist()).score)
        low, high = _interval(metric, counts, resamples) if resamples > 1 else (None, None)
        scores[name] = Score(value, low, high, str(metric.get_signature()))
    return scores


def _interval(metric: Any, counts: NDArray[Any], resamples: int) -> tuple[float, float]:
    draw = np.random.default_rng(SEED)
    sums = (counts[draw.integers(len(counts), size=len(counts))].sum(0) for _ in range(resamples))
    values = [float(metric._compute_score_from_stats(one.tolist()).score) for one in sums]
    low, high = np.percentile(values, (2.5, 97.5))
    return float(low), float(high)


class LengthBin(NamedTuple):
    """BLEU of the sentences whose source has this many words."""

    which: str
    sentences: int
    words: float  # of a source, on average
    bleu: float


def by_length(
    lengths: Sequence[int], translations: Sequence[str], references: Sequence[str], edges: Sequence[int]
) -> list[LengthBin]:
    """For each range between the edges that has sentences."""
    table = []
    bounds = [0, *edges, 10**9]
    for low, high in itertools.pairwise(bounds):
        chosen = [place for place, length in enumerate(lengths) if low < length <= high]
        if chosen:
            ours, theirs = ([side[place] for place in chosen] for side in (translations, references))
            score = translation_scores(ours, theirs, resamples=0)["bleu"]
            which = f"{low + 1}–{high}" if high < 10**9 else f"{low + 1}–"
            table.append(
                LengthBin(which, len(chosen), sum(lengths[place] for place in chosen) / len(chosen), score.value)
            )
    return table
