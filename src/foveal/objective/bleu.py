"""How good translations are, as the field counts it: BLEU and chrF by sacrebleu, whose signature says which BLEU it was.

    bleu        cased, on the sentences as a person reads them: the first figure
    lowercased  the same on small letters and separated signs: what papers on small sets report
    chrf        F-score of runs of characters, kinder to languages with many endings

Intervals are 95 % of sacrebleu's bootstrap over sentences.
Papers: Kishore Papineni et al. (2002). BLEU. ACL. Maja Popović (2015). chrF. WMT. Matt Post (2018). A call for clarity in reporting BLEU scores. WMT.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from foveal.errors import FovealError, expect

DRAWS = 1000


@dataclass(frozen=True)
class Score:
    value: float
    low: float | None  # of the interval
    high: float | None
    signature: str


def translation_scores(said: Sequence[str], references: Sequence[str], draws: int = DRAWS) -> dict[str, Score]:
    """draws: resamplings for the interval; below 2, there is none."""
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ModuleNotFoundError:
        raise FovealError("BLEU: expected sacrebleu to be installed, got none; pip install foveal[train]") from None
    expect(len(said) == len(references) > 0, "BLEU", f"as many translations as the {len(references)} references, at least one", len(said))
    metrics = {"bleu": BLEU(), "lowercased": BLEU(lowercase=True), "chrf": CHRF()}
    scores = {}
    for name, metric in metrics.items():
        found = metric.corpus_score(list(said), [list(references)], n_bootstrap=max(1, draws))
        half = float(found._ci) if draws > 1 else None
        middle = float(found._mean) if draws > 1 else 0.0
        low, high = (None, None) if half is None else (middle - half, middle + half)
        scores[name] = Score(float(found.score), low, high, str(metric.get_signature()))
    return scores


def by_length(lengths: Sequence[int], said: Sequence[str], references: Sequence[str], edges: Sequence[int]) -> list[tuple[str, int, float]]:
    """BLEU of the sentences whose source has so many words: (which, how many, BLEU) for each range between the edges."""
    table = []
    bounds = [0, *edges, 10**9]
    for low, high in itertools.pairwise(bounds):
        chosen = [place for place, length in enumerate(lengths) if low < length <= high]
        if chosen:
            score = translation_scores([said[place] for place in chosen], [references[place] for place in chosen], draws=1)["bleu"]
            table.append((f"{low + 1}–{high}" if high < 10**9 else f"{low + 1}–", len(chosen), score.value))
    return table
