"""Linear attention: positive random features stand for the exponential, so keys and values are summed once for all
queries.

    y_i = φ(q_i)ᵀ (Σ_j φ(k_j) v_jᵀ) / φ(q_i)ᵀ (Σ_j φ(k_j));   φ(x)_f = exp(ω_f·x′ − ‖x′‖²/2) / √F,   x′ = x / D^¼
    E[φ(q)·φ(k)] = exp(q·k/√D)

Symbols: ω_f the F rows of the projection, orthogonal in blocks of D, each as long as a Gaussian vector; causal: the
    sums run over j ≤ i only.
Paper: Krzysztof Choromanski, Valerii Likhosherstov, David Dohan, Xingyou Song, Andreea Gane, Tamas Sarlos, Peter
    Hawkins, Jared Davis, Afroz Mohiuddin, Lukasz Kaiser, David Belanger, Lucy Colwell, Adrian Weller (2021).
    Rethinking attention with performers. ICLR. arXiv:2009.14794.
Paper: Angelos Katharopoulos, Apoorv Vyas, Nikolaos Pappas, François Fleuret (2020). Transformers are RNNs: fast
    autoregressive transformers with linear attention. ICML. arXiv:2006.16236.
Departs from the paper: no constant is added to the features; factors that cancel in the quotient keep them in range
    instead. A row that may look at nothing yields 0.
Cost: O((N + M)·F·D) time, O((N + M)·D + F·D) memory: features are made for some rows at a time, at least 128, and
    thrown away; a gradient makes them again and keeps F·D sums for each such part. Compiled or traced, all are made at
    once: O((N + M)·F) memory, and causal (N/128)²·F·D more time.
Example: linear(q[:, :2], k, v, orthogonal(features=16, width=8))
"""

import math
from collections.abc import Callable
from functools import partial, reduce
from operator import and_
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from foveal.core.algebra import And, Everything, Given
from foveal.core.blockwise import no_autocast
from foveal.core.mask import Mask
from foveal.core.observe import Look, observers, report
from foveal.core.pattern.causal import Causal
from foveal.core.pattern.padding import padding
from foveal.core.trace import is_tracing
from foveal.errors import FovealError, expect

CHUNK = 128  # queries that meet their own keys pair by pair in the causal form
# So many chunks hand on their sums in one product, whose cost grows with their square: with so few it is still the
# least.
CHUNKS = 64
AT_ONCE = {"cpu": 2**20, "other": 2**26}  # features computed at a time: they stay in a CPU's cache, or fill a GPU
LOWEST = torch.finfo(
    torch.float32
).min  # no key is weaker, so that a row with one key has a finite strength to be relative to


def orthogonal(features: int, width: int, seed: int = 0) -> Tensor:
    """ω: (F, D) in float32, always the same for one seed."""
    expect(features >= 1, "the number of features", "at least 1", features)
    expect(width >= 1, "the width of a head", "at least 1", width)
    generator = torch.Generator("cpu").manual_seed(seed)

    def gaussian(rows: int) -> Tensor:
        return torch.randn(rows, width, generator=generator, dtype=torch.float64, device="cpu")

    blocks = []
    for _ in range(math.ceil(features / width)):
        q, r = torch.linalg.qr(gaussian(width))
        blocks.append((q * r.diagonal().sign()).T)  # with these signs every direction is equally likely
    lengths: Tensor = torch.linalg.vector_norm(gaussian(features), dim=1, keepdim=True)
    return (torch.cat(blocks)[:features] * lengths).float()


def linear(q: Tensor, k: Tensor, v: Tensor, projection: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
    """(B, H, N, D), (B, H, M, D), (B, H, M, E), ω (F, D) → (B, H, N, E).

    mask: causal, padding, or both; a boolean tensor that is the same for all queries, (B, 1, 1, M). Others cannot be
    had without N × M.
    """
    _check(q, k, v, projection)
    (batch, heads, queries, _), keys = q.shape, k.shape[2]
    ordered, kept = order_and_keys(mask, batch, queries, keys, q.device)
    wide = torch.promote_types(q.dtype, torch.float32)
    hiding = torch.zeros(1, 1, keys, 1, dtype=wide, device=q.device)  # −inf for a key that nobody may look at
    if kept is not None:
        hiding = hiding.masked_fill(~kept.transpose(-1, -2), -torch.inf)
    with no_autocast(q.device.type):
        y = (_causal if ordered else _both_ways)(q.to(wide), k.to(wide), v.to(wide), hiding, projection.to(wide))
    if observers:
        report(Look(batch, heads, queries, keys, "linear", partial(_rows, q, k, hiding, projection, ordered)))
    return y.to(v.dtype)


def order_and_keys(
    mask: Mask | Tensor | None, batch: int, queries: int, keys: int, device: torch.device
) -> tuple[bool, Tensor | None]:
    """Whether a mask is causal, and which keys it keeps, (B, 1, 1, M) or None for all:
    as much as a sum over keys can respect.
    """
    if isinstance(mask, Tensor):
        mask = Given(mask)
    if mask is None or isinstance(mask, Everything):
        return False, None
    if isinstance(mask, Causal):
        return True, None
    if isinstance(mask, And):
        parts = [order_and_keys(part, batch, queries, keys, device) for part in mask.parts]
        some = [kept for _, kept in parts if kept is not None]
        return any(ordered for ordered, _ in parts), reduce(and_, some) if some else None
    if isinstance(mask, padding) or (isinstance(mask, Given) and mask.tensor.shape[1:3] == (1, 1)):
        return False, mask.dense(1, keys, batch=batch, device=device)  # the same for all queries
    raise FovealError(
        f"mask: expected none, causal, padding or causal & padding, as no pair is ever formed here, got {mask!r}; "
        "MultiHead takes any mask"
    )


def _both_ways(q: Tensor, k: Tensor, v: Tensor, hiding: Tensor, projection: Tensor) -> Tensor:
    size, sums = _at_once(q, projection), _nothing(k, v, projection)
    for part in zip(*(_split(x, size) for x in (k, v, hiding)), strict=True):
        sums = _run(_added, k.shape[2] > size, *part, projection, *sums)
    return torch.cat([_run(_read, q.shape[2] > size, part, projection, sums[0]) for part in _split(q, size)], 2)


def _causal(q: Tensor, k: Tensor, v: Tensor, hiding: Tensor, projection: Tensor) -> Tensor:
    size, sums, done = min(_at_once(q, projection), CHUNKS * CHUNK), _nothing(k, v, projection), []
    k, v, hiding = _fitted(k, q.shape[2]), _fitted(v, q.shape[2]), _fitted(hiding, q.shape[2], -torch.inf)
    for part in zip(*(_split(x, size) for x in (q, k, v, hiding)), strict=True):
        y, *sums = _run(_read_and_added, q.shape[2] > size, *part, projection, *sums)
        done.append(y)
    return torch.cat(done, 2)


def _added(
    k: Tensor, v: Tensor, hiding: Tensor, projection: Tensor, sums: Tensor, strongest: Tensor
) -> tuple[Tensor, Tensor]:
    """Σ_j φ(k_j) [v_j, 1]ᵀ, (B, H, F, E + 1), with these keys in it, relative to the strongest key so far.

    And the strength of that.
    """
    keys, strength = _features(k, projection)
    strength = strength + hiding
    now = torch.maximum(strongest, _fitted(strength.detach(), k.shape[2] + 1, LOWEST).amax(2, keepdim=True))
    return sums * (strongest - now).exp() + keys.transpose(-1, -2) @ (_with_ones(v) * (strength - now).exp()), now


def _read(q: Tensor, projection: Tensor, sums: Tensor) -> Tensor:
    return _quotient(_features(q, projection)[0] @ sums)


def _read_and_added(
    q: Tensor, k: Tensor, v: Tensor, hiding: Tensor, projection: Tensor, sums: Tensor, strongest: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Earlier chunks enter by their sums, a chunk's own keys pair by pair: nothing is as large as N·N or N·F·E.

    Each row is relative to the strongest key that it sees itself: beside a later, far stronger one its own keys would
    all be 0.
    """
    keys, strength = _features(k, projection)
    fixed = strength.detach()
    values = _with_ones(v) * (strength - fixed).exp()  # times 1; by this way the strength gets its gradient
    # (B, H, chunks, CHUNK, ·)
    rows, keys, values = (_in_chunks(x) for x in (_features(q, projection)[0], keys, values))
    fixed = _in_chunks(fixed + hiding, -torch.inf)
    tops = fixed.amax(3, keepdim=True).clamp_min(LOWEST)  # (B, H, chunks, 1, 1)
    own = keys.transpose(-1, -2) @ (values * (fixed - tops).exp())  # (B, H, chunks, F, E + 1)
    fading, starts = _relative(torch.cat([strongest, tops.flatten(3)], 2), _count(tops.shape[2] + 1, q), strongest)
    # of shape (B, H, chunks + 1, F, E + 1)
    upto = (fading @ torch.cat([sums[:, :, None], own], 2).flatten(3)).unflatten(3, sums.shape[2:])
    weights, levels = _relative(fixed, _count(CHUNK, q), starts[:, :, :-1, None])  # (B, H, chunks, CHUNK, CHUNK)
    pairs = (rows @ keys.transpose(-1, -2)) * weights
    y = _quotient(rows @ upto[:, :, :-1] * (starts[:, :, :-1, None] - levels).exp() + pairs @ values).flatten(2, 3)
    return y[:, :, : q.shape[2]], upto[:, :, -1], starts[:, :, -1:]


def _relative(strength: Tensor, rows: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
    """How strong keys (…, m, 1) are beside the strongest that a row sees, itself the last: (…, n, m).

    And that one's strength, (…, n, 1).
    """
    seen = strength.transpose(-1, -2).masked_fill(_count(strength.shape[-2], rows) > rows[:, None], -torch.inf)
    strongest = torch.maximum(seen.detach().amax(-1, keepdim=True), least)
    return seen.sub_(strongest).exp_(), strongest


def _rows(q: Tensor, k: Tensor, hiding: Tensor, projection: Tensor, ordered: bool, rows: Tensor) -> Tensor:
    """The weights that some queries give to all keys: (B, H, n, M)."""
    wide, last = hiding.dtype, k.shape[2]
    keys, strength = _features(k.to(wide), projection.to(wide))
    # one that nobody sees, as there must be some to find the strongest
    strength = _fitted(strength + hiding, last + 1, -torch.inf)
    weights, _ = _relative(strength, rows if ordered else torch.full_like(rows, last), hiding.new_full((), LOWEST))
    pairs = _features(q[:, :, rows].to(wide), projection.to(wide))[0] @ keys.transpose(-1, -2) * weights[..., :-1]
    return _quotient(torch.cat([pairs, pairs.sum(-1, keepdim=True)], -1)).to(q.dtype)


def _features(x: Tensor, projection: Tensor) -> tuple[Tensor, Tensor]:
    """φ(x) with its largest entry made 1, (B, H, n, F), and the logarithm of what it was divided by, (B, H, n, 1)."""
    width = x.shape[3]
    exponent = x @ (projection * width**-0.25).T
    top = exponent.detach().amax(-1, keepdim=True)  # it cancels, so no gradient need pass through it
    strength = top - x.square().sum(-1, keepdim=True) * (width**-0.5 / 2)
    return exponent.sub_(top).exp_(), strength.clamp_min(LOWEST)


def _with_ones(v: Tensor) -> Tensor:
    """With a column of ones one product gives both sums."""
    return F.pad(v, (0, 1), value=1.0)


def _count(size: int, like: Tensor) -> Tensor:
    return torch.arange(size, device=like.device)


def _nothing(k: Tensor, v: Tensor, projection: Tensor) -> tuple[Tensor, Tensor]:
    """The sums before the first key, and what they are relative to."""
    batch, heads = k.shape[:2]
    return k.new_zeros(batch, heads, len(projection), v.shape[3] + 1), k.new_full((batch, heads, 1, 1), LOWEST)


def _quotient(sums: Tensor) -> Tensor:
    """The weighted sum over the sum of weights, which stands in the last column; a row that saw nothing yields 0."""
    total = sums[..., -1:]
    return sums[..., :-1] / total.masked_fill(total == 0, 1)


def _fitted(x: Tensor, rows: int, value: float = 0.0) -> Tensor:
    """x (B, H, m, F) with so many rows: cut, or filled up."""
    return x if not is_tracing() and x.shape[2] == rows else F.pad(x, (0, 0, 0, rows - x.shape[2]), value=value)


def _in_chunks(x: Tensor, value: float = 0.0) -> Tensor:
    """(B, H, m, F) → (B, H, chunks, CHUNK, F), the last chunk filled up."""
    chunks = -(-x.shape[2] // CHUNK)
    return _fitted(x, chunks * CHUNK, value).view(*x.shape[:2], chunks, CHUNK, x.shape[3])


def _at_once(q: Tensor, projection: Tensor) -> int:
    """How many rows go at a time, in whole chunks."""
    if is_tracing():
        return CHUNK  # which nobody reads: all go at once
    room = AT_ONCE["cpu" if q.device.type == "cpu" else "other"]
    return max(room // (q.shape[0] * q.shape[1] * len(projection) or 1) // CHUNK, 1) * CHUNK


def _split(x: Tensor, size: int) -> tuple[Tensor, ...]:
    """The rows in parts; all in one when a compiler or exporter would unroll the loop."""
    return (x,) if torch.compiler.is_compiling() or is_tracing() else torch.split(x, size, 2)


def _run(step: Callable[..., Any], one_of_many: bool, *inputs: Tensor) -> Any:
    """One step; where there are many, its features are computed again in the backward pass:
    to store all N·F takes longer.
    """
    if torch.compiler.is_compiling() or is_tracing() or not (one_of_many and torch.is_grad_enabled()):
        return step(*inputs)
    return checkpoint(step, *inputs, use_reentrant=False, preserve_rng_state=False)


def _check(q: Tensor, k: Tensor, v: Tensor, projection: Tensor) -> None:
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        expect(tensor.dim() == 4, name, "4 axes (B, H, N, D)", tuple(tensor.shape))
    expect(
        q.shape[:2] == k.shape[:2] and q.shape[3] == k.shape[3],
        "k",
        f"batch, heads and width of q {tuple(q.shape)}",
        tuple(k.shape),
    )
    expect(v.shape[:3] == k.shape[:3], "v", f"batch, heads and keys of k {tuple(k.shape)}", tuple(v.shape))
    expect(
        projection.dim() == 2 and projection.shape[1] == q.shape[3],
        "projection",
        f"(F, {q.shape[3]})",
        tuple(projection.shape),
    )
