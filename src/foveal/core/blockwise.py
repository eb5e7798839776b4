"""Attention tile by tile: the pairs that a mask drops are never computed, and N × M scores are never stored.

    for each tile (rows R, columns S) of the mask:
        E = Q_R K_Sᵀ·scale + term + mask;   P = softmax_j E;   Y_R = P V_S
    two tiles of one row are joined by their ℓ = log Σ_j exp E:   ℓ ← log(e^ℓ₁ + e^ℓ₂),  Y ← Y₁·e^(ℓ₁−ℓ) + Y₂·e^(ℓ₂−ℓ)
    backward, with P made anew and δ = Σ_d dY·Y:   dE = P ∘ (dY Vᵀ − δ)

It runs and trains on any device, in plain torch: FlexAttention has no backward pass on a CPU.
Symbols: B batch, H heads of q, G heads of k and v, n and m the sides of a tile.
Paper: Tri Dao, Daniel Y. Fu, Stefano Ermon, Atri Rudra, Christopher Ré (2022). FlashAttention: fast and
    memory-efficient exact attention with IO-awareness. NeurIPS. arXiv:2205.14135.
Departs from the paper: a tile is as wide as its rows' pattern, so that most rows need no rescaling.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from foveal.core.algebra import Everything
from foveal.core.keep_alive import keep
from foveal.core.mask import Mask
from foveal.core.term import Term
from foveal.core.tile import HEIGHT, Plan, Tile, plan
from foveal.errors import FovealError


def blockwise(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Mask | None, term: Term | None, scale: float, dropout: float
) -> Tensor:
    """Attention by tiles: (B, H, N, D), (B, G, M, D), (B, G, M, E) → (B, H, N, E)."""
    whole = Everything() if mask is None else mask
    height = HEIGHT if q.device.type == "cpu" else 4 * HEIGHT  # a GPU wants larger matrices
    tiles = keep(plan(whole.structure(), q.shape[2], k.shape[2], str(q.device), height))
    job = _Job(tiles, whole.remainder(), term, scale, dropout)
    tensors = term.tensors if term else ()
    with no_autocast(q.device.type):
        result: Tensor = _Blockwise.apply(job, q, k, v, *tensors)  # type: ignore[no-untyped-call]
    return result


def no_autocast(device: str) -> AbstractContextManager[object]:
    """Scores are summed in at least float32, so mixed precision stops here."""
    mixed = device != "meta" and torch.is_autocast_enabled(device)  # a meta tensor has shapes only
    return torch.autocast(device, enabled=False) if mixed else nullcontext()


def by_group(x: Tensor, groups: int) -> Tensor:
    """(B, H, n, D) → (B, G, H/G·n, D): heads that share keys become more rows, so keys are never copied."""
    batch, heads, rows, width = x.shape
    return x if heads == groups else x.reshape(batch, groups, heads // groups * rows, width)


class _Job:
    """What the two passes share besides tensors."""

    def __init__(self, tiles: Plan, mask: Mask | None, term: Term | None, scale: float, dropout: float) -> None:
        self.plan, self.mask, self.term, self.scale, self.dropout = tiles, mask, term, scale, dropout
        self.seed = int(torch.randint(2**31, (), device="cpu")) if dropout else 0

    def scores(self, tile: Tile, q: Tensor, k: Tensor, extra: Tensor | None, keys: int) -> Tensor:
        """E of one tile, −inf where the mask drops a pair: (B, H, n, m)."""
        (batch, heads, n, width), (groups, m) = q.shape, k.shape[1:3]
        rows = by_group(q, groups).reshape(batch * groups, heads // groups * n, width)
        columns = k.reshape(batch * groups, m, width).mT
        if (
            tile.kept is not None and tile.kept.shape[1] == m and heads == groups
        ):  # the mask rides along with the product
            scores = torch.baddbmm(tile.kept.to(q.dtype), rows, columns, alpha=self.scale).view(batch, heads, n, m)
        else:
            scores = torch.bmm(rows * self.scale, columns).view(batch, heads, n, m)
            if tile.kept is not None:
                scores[..., tile.partly] += tile.kept.to(q.dtype)
        if extra is not None:
            scores += extra
        if self.mask is not None:  # what differs between the samples of a batch
            kept = self.mask.part(tile.row_positions, tile.positions, keys, batch=batch)
            scores.masked_fill_(~kept, -torch.inf)
        return scores

    def weights(self, tile: Tile, scores: Tensor) -> Tensor:
        """P, with 0 in a row that sees nothing."""
        weights = torch.softmax(scores, -1)
        if tile.bare or self.mask is not None or self.term is not None:
            weights.masked_fill_(scores.amax(-1, keepdim=True) == -torch.inf, 0)
        return weights

    def survivors(self, number: int, like: Tensor) -> Tensor | None:
        """Dropout's factor on the weights of tile `number`: the same in both passes."""
        if not self.dropout:
            return None
        if like.is_meta:  # shapes only
            return like
        generator = torch.Generator(like.device).manual_seed(self.seed + number)
        kept = torch.rand(like.shape, generator=generator, device=like.device) >= self.dropout
        return kept.to(like.dtype) / (1 - self.dropout)


class _Blockwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, job: _Job, q: Tensor, k: Tensor, v: Tensor, *tensors: Tensor) -> Tensor:
        batch, heads, queries, _ = q.shape
        wide = torch.promote_types(q.dtype, torch.float32)
        out = q.new_zeros((batch, heads, queries, v.shape[3]), dtype=q.dtype if job.plan.once else wide)
        total = None if job.plan.once else q.new_full((batch, heads, queries), -torch.inf, dtype=wide)  # ℓ
        for number, tile in enumerate(job.plan.tiles):
            q_part, k_part, v_part = _parts(tile, q, k, v, wide)
            extra = None if job.term is None else job.term.scores(q_part, tile.row_positions, tile.positions, *tensors)
            scores = job.scores(tile, q_part, k_part, extra, k.shape[2])
            weights = job.weights(tile, scores)  # (B, H, n, m)
            factor = job.survivors(number, weights)
            y = _product(weights if factor is None else weights * factor, v_part)
            if total is not None:
                log_sum = torch.logsumexp(scores, -1)
                y, total[:, :, tile.rows] = _joined(out[:, :, tile.rows], total[:, :, tile.rows], y, log_sum)
            out[:, :, tile.rows] = y
        out = out.to(q.dtype)
        ctx.job = job
        ctx.save_for_backward(q, k, v, out, total, *tensors)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # a graph of this pass would miss what ℓ depends on, and be wrong without a word
            raise FovealError(
                "kernel 'blocks': expected a first derivative only, got create_graph=True; use `with "
                'foveal.kernel("explicit"):`'
            )
        with no_autocast(grad.device.type):
            return None, *_gradients(ctx.job, ctx.needs_input_grad[4:], grad, *ctx.saved_tensors)


def _gradients(
    job: _Job,
    needed: tuple[bool, ...],
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    total: Tensor | None,
    *tensors: Tensor,
) -> list[Tensor | None]:
    """Of y with respect to q, k, v, and those of the term's tensors that are needed."""
    wide = torch.promote_types(q.dtype, torch.float32)
    dq, dk, dv = (torch.zeros_like(x, dtype=wide) for x in (q, k, v))
    learned = [torch.zeros_like(x, dtype=wide) if need else None for x, need in zip(tensors, needed, strict=True)]
    for number, tile in enumerate(job.plan.tiles):
        q_part, k_part, v_part = _parts(tile, q, k, v, wide)
        extra, sources = None, []
        if job.term is not None:
            with torch.enable_grad():
                sources = [
                    x.detach().requires_grad_(need) for x, need in zip((q_part, *tensors), (True, *needed), strict=True)
                ]
                extra = job.term.scores(sources[0], tile.row_positions, tile.positions, *sources[1:])
        scores = job.scores(tile, q_part, k_part, None if extra is None else extra.detach(), k.shape[2])
        if total is None:
            weights = job.weights(tile, scores)
        else:  # P over all the tiles of a row: exp(E − ℓ), ℓ = −inf only where P is 0 already
            weights = torch.exp(scores - _finite(total[:, :, tile.rows])[..., None])
        dy = grad[:, :, tile.rows].to(wide)
        delta = (dy * out[:, :, tile.rows]).sum(-1, keepdim=True)
        d_scores = _product(dy, v_part.mT)
        factor = job.survivors(number, weights)
        if factor is not None:
            d_scores *= factor
        _add(dv, tile.columns, _transposed(weights if factor is None else weights * factor, dy, v.shape[1]))
        d_scores.sub_(delta).mul_(weights)
        dq_part = _product(d_scores, k_part) * job.scale
        _add(dk, tile.columns, _transposed(d_scores, q_part * job.scale, k.shape[1]))
        if extra is not None and extra.requires_grad:
            wanted = [
                (source, sink) for source, sink in zip(sources, (dq_part, *learned), strict=True) if sink is not None
            ]
            through = torch.autograd.grad(
                extra, [source for source, _ in wanted], d_scores.sum_to_size(extra.shape), allow_unused=True
            )
            for (_, sink), part in zip(wanted, through, strict=True):
                if part is not None:
                    sink += part
        dq[:, :, tile.rows] += dq_part
    return [
        None if part is None else part.to(x.dtype)
        for part, x in zip((dq, dk, dv, *learned), (q, k, v, *tensors), strict=True)
    ]


def _parts(tile: Tile, q: Tensor, k: Tensor, v: Tensor, wide: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    return q[:, :, tile.rows].to(wide), k[:, :, tile.columns].to(wide), v[:, :, tile.columns].to(wide)


def _product(weights: Tensor, v: Tensor) -> Tensor:
    """(B, H, n, m), (B, G, m, E) → (B, H, n, E)."""
    batch, heads, rows, _ = weights.shape
    return (by_group(weights, v.shape[1]) @ v).view(batch, heads, rows, v.shape[3])


def _transposed(weights: Tensor, x: Tensor, groups: int) -> Tensor:
    """(B, H, n, m)ᵀ, (B, H, n, D) → (B, G, m, D), summed over the heads that share keys."""
    return by_group(weights, groups).mT @ by_group(x, groups)


def _finite(log_sum: Tensor) -> Tensor:
    return log_sum.masked_fill(log_sum == -torch.inf, 0)


def _joined(y: Tensor, log_sum: Tensor, new_y: Tensor, new_log_sum: Tensor) -> tuple[Tensor, Tensor]:
    joint = torch.logaddexp(log_sum, new_log_sum)
    safe = _finite(joint)
    return y * (log_sum - safe).exp()[..., None] + new_y * (new_log_sum - safe).exp()[..., None], joint


def _add(total: Tensor, columns: slice | Tensor, part: Tensor) -> None:
    if isinstance(columns, slice):
        total[:, :, columns] += part
    else:
        total.index_add_(2, columns, part)
