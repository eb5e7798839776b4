"""The insides of an attention that is nobody's in particular: its operations are recorded, and q,
k and v are found by fitting.

    S = c·Q Kᵀ + r,   r constant along a row
    the pair (Q, K) of projections and the slope c are those for which nothing is left over

Names do not matter: a projection is any product with a parameter, whichever library calls it. Scores that are no
multiple of Q Kᵀ (a position in them, another mechanism) leave `fit` empty.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from foveal.core.observe import Look, observers
from foveal.explain.diagnosis.record import Product, Projection, Recorder, Softmax
from foveal.explain.diagnosis.subject import REFUSALS, Subject

HIDDEN = -1e4  # a score below this is a mask, whether −inf, −1e9 or the least number of its type


@dataclass(frozen=True)
class Heads:
    """A part of a projection as heads (B, G, N, D).

    `mixed`: the axes were not swapped, so a head holds some tokens instead of a part of all.
    """

    tensor: Tensor
    mixed: bool = False


@dataclass(frozen=True)
class Fit:
    """The scores explained: q with H heads, k with as many or a divisor of them, and the slope."""

    q: Heads
    k: Heads
    slope: float

    @property
    def products(self) -> Tensor:
        """Q Kᵀ (B, H, N, N)."""
        return self.q.tensor @ self.k.tensor.repeat_interleave(
            self.q.tensor.shape[1] // self.k.tensor.shape[1], 1
        ).transpose(-1, -2)


@dataclass
class Anatomy:
    """What was recorded of one pass. scores (B, H, N, N) of the one attention in it,
    None if there is none or its shape is another.
    """

    projections: list[Projection]
    products: list[Product]
    softmaxes: list[Softmax]
    output: Tensor
    scores: Tensor | None = None
    moment: int = 0  # of the softmax that these scores went into
    fit: Fit | None = None
    candidates: list[Heads] = field(default_factory=list)

    @property
    def heads(self) -> int | None:
        return None if self.scores is None else self.scores.shape[1]

    @property
    def visible(self) -> Tensor | None:
        """(B, H, N, N): the pairs that are not masked by the module itself."""
        return None if self.scores is None else self.scores > HIDDEN


def dissect(subject: Subject, x: Tensor) -> Anatomy:
    """Record one pass over tokens x, with every fused kernel taken apart, and explain its scores."""
    try:
        found, looks = _recorded(subject, x, grad=True)  # with gradients torch takes no short cut
    except REFUSALS:
        found, looks = _recorded(subject, x, grad=False)
    batch, tokens = x.shape[:2]
    given = _given(subject, x) if subject.on_heads else []
    for scores, moment in _scores(found, subject, x, looks):
        if scores.numel() % (batch * tokens * tokens) or tuple(scores.shape[-2:]) != (tokens, tokens):
            continue
        scores = scores.reshape(batch, -1, tokens, tokens).to(torch.float64)
        candidates = given or list(_candidates(found.projections, scores.shape[1], batch, tokens, before=moment))
        if not given:  # where nothing is projected, the tokens themselves are q, k and v
            candidates += [
                Heads(piece.transpose(1, 2)) for _ in ("q", "k") for piece in _pieces(x.double(), scores.shape[1])
            ]
        fit = explain(scores, candidates)
        if fit is not None or found.scores is None:
            found.scores, found.moment, found.fit, found.candidates = scores, moment, fit, candidates
        if fit is not None:
            break
    return found


def _recorded(subject: Subject, x: Tensor, *, grad: bool) -> tuple[Anatomy, list[Look]]:
    recorder = Recorder(subject.module, x.shape[0] * x.shape[1])
    looks: list[Look] = []

    def watch(look: Look) -> None:
        looks.append(look)

    observers.append(watch)
    try:
        with sdpa_kernel(SDPBackend.MATH), recorder:
            y = subject.run(x, grad=grad).detach()
    finally:
        observers.remove(watch)
    return Anatomy(recorder.projections, recorder.products, recorder.softmaxes, y), looks


def explain(scores: Tensor, candidates: list[Heads]) -> Fit | None:
    """The pair of candidates of whose products these scores are a multiple.

    The first in the order in which they were made.
    """
    heads = scores.shape[1]
    seen = scores > HIDDEN
    target = _centred(scores, seen)
    whole = float((target**2).sum())
    if whole == 0:
        return None
    for q in candidates:
        for k in candidates:
            if q is k or q.tensor.shape[1] != heads or q.mixed != k.mixed or not _pair(q.tensor, k.tensor):
                continue
            products = _centred(Fit(q, k, 1.0).products, seen)
            slope = float((products * target).sum() / (products**2).sum().clamp_min(1e-30))
            if float(((target - slope * products) ** 2).sum()) < 1e-6 * whole:
                return Fit(q, k, slope)
    return None


def _centred(scores: Tensor, seen: Tensor) -> Tensor:
    """Scores less their mean along the row, since a softmax does not see it; 0 where hidden."""
    kept = scores.masked_fill(~seen, 0)
    return (kept - kept.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp_min(1)).masked_fill(~seen, 0)


def _pair(q: Tensor, k: Tensor) -> bool:
    return q.shape[3] == k.shape[3] and q.shape[1] % k.shape[1] == 0


def _scores(found: Anatomy, subject: Subject, x: Tensor, looks: list[Look]) -> Iterator[tuple[Tensor, int]]:
    """The scores, or log α which is as good: from a softmax, from a report of foveal's, or solved from y = α v."""
    yield from ((softmax.scores, softmax.moment) for softmax in found.softmaxes)
    end = max([projection.moment for projection in found.projections], default=0)
    for look in looks:
        alpha = look.rows(torch.arange(look.queries, device=x.device)).detach()
        yield alpha.double().log().clamp_min(2 * HIDDEN), end
    if subject.on_heads and subject.sizes.heads:
        heads, tokens, y = subject.sizes.heads, x.shape[1], found.output
        v = x.unflatten(2, (3, heads, -1))[:, :, 2].transpose(1, 2)  # (B, H, N, D), D ≥ N, so α = y v⁺
        if v.shape[3] >= tokens and y.shape[2] == heads * v.shape[3]:
            alpha = y.unflatten(2, (heads, -1)).transpose(1, 2).double() @ torch.linalg.pinv(v.double())
            yield alpha.clamp_min(0).log().where(alpha > 1e-12, torch.tensor(2 * HIDDEN, dtype=torch.float64)), 0


def _given(subject: Subject, x: Tensor) -> list[Heads]:
    """A function on heads is given its q, k and v."""
    parts = x.unflatten(2, (3, subject.sizes.heads or 1, -1)).permute(2, 0, 3, 1, 4).double()  # (3, B, H, N, D)
    return [Heads(part) for part in parts]


def _candidates(projections: list[Projection], heads: int, batch: int, tokens: int, before: int) -> Iterator[Heads]:
    """Every way to cut what was projected before the softmax into heads; the right ways first."""
    early = [projection.result.double() for projection in projections if projection.moment < before]
    for mixed in (False, True):
        for result in early:
            for rows in result.unflatten(0, (batch, tokens)), result.unflatten(0, (tokens, batch)).transpose(0, 1):
                for piece in _pieces(rows, heads):  # (B, N, G, D)
                    if not mixed:
                        yield Heads(piece.transpose(1, 2))
                    elif piece.shape[2] == heads:
                        yield Heads(piece.reshape(batch, heads, tokens, -1), mixed=True)


def _pieces(rows: Tensor, heads: int) -> Iterator[Tensor]:
    """(B, N, W) → (B, N, G, D) in each packing in use: alone, two or three side by side, q beside fewer k and v,
    three for each head.
    """
    width = rows.shape[2]
    for groups in [g for g in range(heads, 0, -1) if heads % g == 0]:
        if width % (heads + 2 * groups) == 0:  # q with H heads, k and v with G
            each = width // (heads + 2 * groups)
            for piece in rows.split([heads * each, groups * each, groups * each], 2):
                yield piece.unflatten(2, (-1, each))
    for parts in (1, 2):
        for groups in [g for g in range(heads, 0, -1) if heads % g == 0 and width % (parts * g) == 0]:
            for piece in rows.chunk(parts, 2):
                yield piece.unflatten(2, (groups, -1))
    if width % (3 * heads) == 0:
        yield from rows.unflatten(2, (heads, 3, -1)).unbind(3)  # (h 3 d)
    if width % heads == 0:
        yield rows.unflatten(2, (-1, heads)).transpose(2, 3)  # (d h)
