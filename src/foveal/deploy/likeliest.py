"""The K likeliest words of a large vocabulary, and their log-probabilities, without sorting it or normalising it.

    log P(w) = l_w − log Σ_v exp l_v;      the K largest l lie in the K columns of a folded l that have the largest maxima

Symbols: l the logits of one row. l is folded into 32 rows: of 32,000 numbers 1,000 maxima are made by vector instructions, K columns are picked,
and their 32·K numbers are sorted. Exact: a number of a column that is not picked has K numbers before it. Some rows at a time, so that
what is read several times lies in a cache.

What one thread of an AMD EPYC takes for 32 rows of 32,000 logits, K = 8: topk 1.3 ms, folded 0.2 ms; logsumexp 1.3 ms.
"""

import torch
from torch import Tensor

FOLD = 32
AT_ONCE = 2**18  # numbers: a mebibyte, what the second cache of a core holds


def log_totals(logits: Tensor) -> Tensor:
    """log Σ exp l of each row, (R, V) → (R, 1)."""
    parts = logits.split(max(1, AT_ONCE // logits.shape[1]))
    return torch.cat([_log_total(part) for part in parts]) if len(parts) > 1 else _log_total(logits)


def likeliest(logits: Tensor, top: int) -> tuple[Tensor, Tensor]:
    """The `top` largest of each row, (R, V) → values and words (R, K), the largest first."""
    words = logits.shape[1]
    top = min(top, words)
    if top > words // (4 * FOLD):
        best, chosen = logits.topk(top, 1)
        return best, chosen
    parts = [_folded(part, top) for part in logits.split(max(1, AT_ONCE // words))]
    return (torch.cat([best for best, _ in parts]), torch.cat([chosen for _, chosen in parts])) if len(parts) > 1 else parts[0]


def _log_total(logits: Tensor) -> Tensor:
    most = logits.amax(1, keepdim=True)
    return (logits - most).exp_().sum(1, keepdim=True).log_().add_(most)


def _folded(logits: Tensor, top: int) -> tuple[Tensor, Tensor]:
    rows, words = logits.shape
    columns = words // FOLD
    folded = logits[:, : FOLD * columns].unflatten(1, (FOLD, columns))
    place = folded.amax(1).topk(top, 1)[1]  # (R, K): columns
    inside = folded.gather(2, place[:, None].expand(rows, FOLD, top)).flatten(1)  # (R, 32·K)
    named = (torch.arange(FOLD)[:, None] * columns + place[:, None]).flatten(1)
    if words > FOLD * columns:  # what is left over by the folding
        inside = torch.cat([inside, logits[:, FOLD * columns :]], 1)
        named = torch.cat([named, torch.arange(FOLD * columns, words).expand(rows, -1)], 1)
    best, chosen = inside.topk(top, 1)
    return best, named.gather(1, chosen)
