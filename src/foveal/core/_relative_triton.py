"""Shaw's relative attention on a GPU, with nothing of size N × M in memory.

    e_ij = scale·q_i·k_j + scale_r·q_i·R_{clip(i−j, ±K)};   y_i = Σ_j softmax_j(e_ij) v_j

In a tile of queries i₀… and keys j₀… the distances i − j span a window of W = BM + BN − 1 rows of R: one product
q·R_Wᵀ (BM, W) holds every term of the tile, and a gather along its rows, t = (i − i₀) − (j − j₀) + BN − 1, skews it
into place. Backward, the same gather the other way round turns dE into the gradient of the window. Where a whole tile
lies beyond ±K the term is one number a query.
Symbols: B batch, H heads, G heads of k and v, N queries, M keys, D width, BM × BN a tile.
Paper: Peter Shaw, Jakob Uszkoreit, Ashish Vaswani (2018). Self-attention with relative position representations.
    NAACL. arXiv:1803.02155.
Paper: Tri Dao, Daniel Y. Fu, Stefano Ermon, Atri Rudra, Christopher Ré (2022). FlashAttention: fast and
    memory-efficient exact attention with IO-awareness. NeurIPS. arXiv:2205.14135.
Departs from the paper: no relative term on the values.
"""

# mypy: ignore-errors
# (a Triton kernel is not Python: its names are symbols of another language)

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2E = tl.constexpr(1.4426950408889634)


def relative(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor, *, scale: float, table_scale: float, causal: bool
) -> Tensor:
    """(B, H, N, D), (B, G, M, D), (B, G, M, D), table (1 or H, 2K+1, D) with row K + clip(i − j) → (B, H, N, D)."""
    return _Relative.apply(q, k, v, table, scale, table_scale, causal)


@triton.jit
def _dot(a, b):
    # float32 in three parts, exact to about 1e-6; half precision is as it is
    return tl.dot(a, b, input_precision="tf32x3")


@triton.jit
def _term(q, R, stride_r, delta, CLIP, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, W: tl.constexpr):
    """q_i·R_{clip(i−j)} for a tile whose first query is `delta` after its first key: (BM, BN), and the window (W,
    D) it came from.
    """
    window = tl.arange(0, W)
    row = tl.minimum(tl.maximum(delta - (BN - 1) + window, -CLIP), CLIP) + CLIP
    r = tl.load(R + row[:, None] * stride_r + tl.arange(0, D)[None, :])
    products = _dot(q, tl.trans(r))  # (BM, W)
    at = tl.arange(0, BM)[:, None] - tl.arange(0, BN)[None, :] + (BN - 1)
    return tl.gather(products, at, 1), r


@triton.jit
def _tile(q, k, R, stride_r, low, high, i0, j0, M, CLIP, scale, scale_r, BAND: tl.constexpr, CAUSAL: tl.constexpr,
          BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, W: tl.constexpr):  # fmt: skip
    """E of one tile, times log₂ e."""
    e = _dot(q, tl.trans(k)) * scale
    delta = i0 - j0
    if BAND:
        term, _ = _term(q, R, stride_r, delta, CLIP, BM, BN, D, W)
        e += term * scale_r
    else:
        e += tl.where(delta > 0, high, low)[:, None] * scale_r
    i = i0 + tl.arange(0, BM)
    j = j0 + tl.arange(0, BN)
    keep = (j < M)[None, :]
    if CAUSAL:
        keep = keep & (j[None, :] <= i[:, None])
    return tl.where(keep, e * LOG2E, float("-inf"))


@triton.jit
def _ends(q, R, stride_r, CLIP, D: tl.constexpr):
    """q_i·R_{−K} and q_i·R_{+K}: the term beyond the clip."""
    d = tl.arange(0, D)
    wide = q.to(tl.float32)
    low = tl.sum(wide * tl.load(R + d).to(tl.float32)[None, :], 1)
    high = tl.sum(wide * tl.load(R + 2 * CLIP * stride_r + d).to(tl.float32)[None, :], 1)
    return low, high


@triton.jit
def _band(first, CLIP, SIZE: tl.constexpr, OTHER: tl.constexpr, stop):
    """The tiles [begin, end) of the other side, in steps of OTHER,
    whose distances to a block of SIZE are not all clipped.
    """
    begin = tl.maximum(first - CLIP - OTHER + 1, 0) // OTHER * OTHER
    end = tl.minimum(tl.cdiv(first + SIZE + CLIP, OTHER) * OTHER, tl.cdiv(stop, OTHER) * OTHER)
    return tl.minimum(begin, end), end


@triton.jit
def _first(phase: tl.constexpr, zeroth, first, second):
    return zeroth if phase == 0 else first if phase == 1 else second


@triton.jit
def _rows(X, start, stride, stop, COUNT: tl.constexpr, D: tl.constexpr):
    """COUNT rows of a matrix from `start` on, 0 beyond its end: (COUNT, D)."""
    row = start + tl.arange(0, COUNT)
    return tl.load(X + row[:, None] * stride + tl.arange(0, D)[None, :], mask=(row < stop)[:, None], other=0.0)


@triton.jit
def _softmax_step(e, y, top, total, v):
    new_top = tl.maximum(top, tl.max(e, 1))
    p = tl.math.exp2(e - new_top[:, None])
    shrink = tl.math.exp2(top - new_top)
    y = y * shrink[:, None] + _dot(p.to(v.dtype), v)
    return y, new_top, total * shrink + tl.sum(p, 1)


@triton.jit
def _forward(Q, K, V, R, Y, L, sqb, sqh, sqn, skb, skh, skn, svb, svh, svn, srh, stride_r, H, GROUP, N, M, CLIP,
             scale, scale_r, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
             W: tl.constexpr):  # fmt: skip
    i0 = tl.program_id(0) * BM
    b, h = tl.program_id(1) // H, tl.program_id(1) % H
    i, d = i0 + tl.arange(0, BM), tl.arange(0, D)
    q = _rows(Q + b.to(tl.int64) * sqb + h * sqh, i0, sqn, N, BM, D)
    K += b.to(tl.int64) * skb + (h // GROUP) * skh
    V += b.to(tl.int64) * svb + (h // GROUP) * svh
    R += h * srh
    low, high = _ends(q, R, stride_r, CLIP, D)
    y = tl.zeros((BM, D), tl.float32)
    top = tl.full((BM,), -1.0e38, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    stop = tl.minimum(M, i0 + BM) if CAUSAL else M
    begin, end = _band(i0, CLIP, BM, BN, stop)
    for phase in tl.static_range(3):  # keys far before the queries, keys within the clip, keys far behind
        for j0 in range(_first(phase, 0, begin, end), _first(phase, begin, end, stop), BN):
            k = _rows(K, j0, skn, M, BN, D)
            v = _rows(V, j0, svn, M, BN, D)
            e = _tile(q, k, R, stride_r, low, high, i0, j0, M, CLIP, scale, scale_r, phase == 1, CAUSAL, BM, BN, D, W)
            y, top, total = _softmax_step(e, y, top, total, v)
    row = tl.program_id(1).to(tl.int64) * N + i
    tl.store(Y + row[:, None] * D + d[None, :], (y / total[:, None]).to(Y.dtype.element_ty), mask=(i < N)[:, None])
    tl.store(L + row, top + tl.math.log2(total), mask=i < N)


@triton.jit
def _backward_query(Q, K, V, R, G, L, DELTA, DQ, DR, sqb, sqh, sqn, skb, skh, skn, svb, svh, svn, srh, stride_r, sdrh,
                    H, GROUP, N, M, CLIP, scale, scale_r, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                    D: tl.constexpr, W: tl.constexpr):  # fmt: skip
    """dq of a block of queries, and the gradient of the table."""
    i0 = tl.program_id(0) * BM
    b, h = tl.program_id(1) // H, tl.program_id(1) % H
    i, d = i0 + tl.arange(0, BM), tl.arange(0, D)
    valid = i < N
    q = _rows(Q + b.to(tl.int64) * sqb + h * sqh, i0, sqn, N, BM, D)
    row = tl.program_id(1).to(tl.int64) * N + i
    g = _rows(G + tl.program_id(1).to(tl.int64) * N * D, i0, D, N, BM, D)
    log_sum = tl.load(L + row, mask=valid, other=float("inf"))
    delta_row = tl.load(DELTA + row, mask=valid, other=0.0)
    K += b.to(tl.int64) * skb + (h // GROUP) * skh
    V += b.to(tl.int64) * svb + (h // GROUP) * svh
    R += h * srh
    DR += h * sdrh
    low, high = _ends(q, R, stride_r, CLIP, D)
    dq = tl.zeros((BM, D), tl.float32)
    far_low = tl.zeros((BM,), tl.float32)
    far_high = tl.zeros((BM,), tl.float32)
    stop = tl.minimum(M, i0 + BM) if CAUSAL else M
    begin, end = _band(i0, CLIP, BM, BN, stop)
    for phase in tl.static_range(3):
        for j0 in range(_first(phase, 0, begin, end), _first(phase, begin, end, stop), BN):
            k = _rows(K, j0, skn, M, BN, D)
            v = _rows(V, j0, svn, M, BN, D)
            e = _tile(q, k, R, stride_r, low, high, i0, j0, M, CLIP, scale, scale_r, phase == 1, CAUSAL, BM, BN, D, W)
            p = tl.math.exp2(e - log_sum[:, None])
            de = p * (_dot(g, tl.trans(v)) - delta_row[:, None])
            dq += _dot(de.to(k.dtype), k) * scale
            if phase == 1:
                # The skew, the other way round: column c of row r belongs to distance t = r − c + BN − 1 of the window.
                t = tl.arange(0, W)
                c = tl.arange(0, BM)[:, None] - t[None, :] + (BN - 1)
                inside = (c >= 0) & (c < BN)
                d_window = tl.gather(de, tl.minimum(tl.maximum(c, 0), BN - 1), 1)
                d_window = tl.where(inside, d_window, 0.0) * scale_r  # (BM, W)
                at = tl.minimum(tl.maximum(i0 - j0 - (BN - 1) + t, -CLIP), CLIP) + CLIP
                r = tl.load(R + at[:, None] * stride_r + d[None, :])
                dq += _dot(d_window.to(r.dtype), r)
                dr = _dot(tl.trans(d_window.to(q.dtype)), q)  # (W, D)
                tl.atomic_add(DR + at[:, None] * D + d[None, :], dr, mask=(t < BM + BN - 1)[:, None], sem="relaxed")
            elif phase == 0:
                far_high += tl.sum(de, 1)
            else:
                far_low += tl.sum(de, 1)
    r_low = tl.load(R + d).to(tl.float32)
    r_high = tl.load(R + 2 * CLIP * stride_r + d).to(tl.float32)
    dq += (far_low[:, None] * r_low[None, :] + far_high[:, None] * r_high[None, :]) * scale_r
    tl.atomic_add(DR + d, tl.sum(far_low[:, None] * q.to(tl.float32), 0) * scale_r, sem="relaxed")
    tl.atomic_add(DR + 2 * CLIP * D + d, tl.sum(far_high[:, None] * q.to(tl.float32), 0) * scale_r, sem="relaxed")
    tl.store(DQ + row[:, None] * D + d[None, :], dq.to(DQ.dtype.element_ty), mask=valid[:, None])


@triton.jit
def _keys_step(k, v, dk, dv, Q, G, L, DELTA, R, stride_r, sqn, i0, j0, N, M, CLIP, scale, scale_r,
               BAND: tl.constexpr, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
               W: tl.constexpr):  # fmt: skip
    i = i0 + tl.arange(0, BM)
    valid = i < N
    q = _rows(Q, i0, sqn, N, BM, D)
    g = _rows(G, i0, D, N, BM, D)
    log_sum = tl.load(L + i, mask=valid, other=float("inf"))
    delta_row = tl.load(DELTA + i, mask=valid, other=0.0)
    low, high = _ends(q, R, stride_r, CLIP, D)
    e = _tile(q, k, R, stride_r, low, high, i0, j0, M, CLIP, scale, scale_r, BAND, CAUSAL, BM, BN, D, W)
    p = tl.math.exp2(e - log_sum[:, None])
    dv += _dot(tl.trans(p.to(g.dtype)), g)
    de = p * (_dot(g, tl.trans(v)) - delta_row[:, None])
    dk += _dot(tl.trans(de.to(q.dtype)), q) * scale
    return dk, dv


@triton.jit
def _backward_key(Q, K, V, R, G, L, DELTA, DK, DV, sqb, sqh, sqn, skb, skh, skn, svb, svh, svn, srh, stride_r,
                  H, GROUP, N, M, CLIP, scale, scale_r, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                  D: tl.constexpr, W: tl.constexpr):  # fmt: skip
    """dk and dv of a block of keys, for one head of q: (B, H, M, D); heads that share keys are summed afterwards."""
    j0 = tl.program_id(0) * BN
    b, h = tl.program_id(1) // H, tl.program_id(1) % H
    j, d = j0 + tl.arange(0, BN), tl.arange(0, D)
    valid = j < M
    k = _rows(K + b.to(tl.int64) * skb + (h // GROUP) * skh, j0, skn, M, BN, D)
    v = _rows(V + b.to(tl.int64) * svb + (h // GROUP) * svh, j0, svn, M, BN, D)
    Q += b.to(tl.int64) * sqb + h * sqh
    R += h * srh
    G += tl.program_id(1).to(tl.int64) * N * D
    L += tl.program_id(1).to(tl.int64) * N
    DELTA += tl.program_id(1).to(tl.int64) * N
    dk = tl.zeros((BN, D), tl.float32)
    dv = tl.zeros((BN, D), tl.float32)
    begin, end = _band(j0, CLIP, BN, BM, N)
    start = j0 // BM * BM if CAUSAL else 0
    begin, end = tl.maximum(begin, start), tl.maximum(end, start)
    for phase in tl.static_range(3):
        for i0 in range(_first(phase, start, begin, end), _first(phase, begin, end, N), BM):
            dk, dv = _keys_step(
                k,
                v,
                dk,
                dv,
                Q,
                G,
                L,
                DELTA,
                R,
                stride_r,
                sqn,
                i0,
                j0,
                N,
                M,
                CLIP,
                scale,
                scale_r,
                phase == 1,
                CAUSAL,
                BM,
                BN,
                D,
                W,
            )
    row = tl.program_id(1).to(tl.int64) * M + j
    tl.store(DK + row[:, None] * D + d[None, :], dk.to(DK.dtype.element_ty), mask=valid[:, None])
    tl.store(DV + row[:, None] * D + d[None, :], dv.to(DV.dtype.element_ty), mask=valid[:, None])


class _Relative(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, table: Tensor, scale: float, table_scale: float, causal: bool
    ) -> Tensor:
        batch, heads, queries, width = q.shape
        q, k, v, table = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v, table.to(q.dtype)))
        y = torch.empty((batch, heads, queries, width), dtype=q.dtype, device=q.device)
        log_sum = torch.empty((batch, heads, queries), dtype=torch.float32, device=q.device)
        grid = (triton.cdiv(queries, FORWARD["BM"]), batch * heads)
        _forward[grid](
            q, k, v, table, y, log_sum, *_sizes(q, k, v, table, scale, table_scale), CAUSAL=causal, D=width, **FORWARD
        )
        ctx.save_for_backward(q, k, v, table, y, log_sum)
        ctx.job = scale, table_scale, causal
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, table, y, log_sum = ctx.saved_tensors
        scale, table_scale, causal = ctx.job
        batch, heads, queries, width = q.shape
        groups, keys = k.shape[1:3]
        grad = grad.contiguous()
        delta = (grad.float() * y.float()).sum(-1)
        dq = torch.empty_like(y)
        d_table = torch.zeros(table.shape, dtype=torch.float32, device=q.device)
        dk, dv = (torch.empty((batch, heads, keys, width), dtype=q.dtype, device=q.device) for _ in range(2))
        sizes = _sizes(q, k, v, table, scale, table_scale)
        table_stride = 0 if len(table) == 1 else d_table.stride(0)
        grid = (triton.cdiv(queries, QUERY["BM"]), batch * heads)
        _backward_query[grid](q, k, v, table, grad, log_sum, delta, dq, d_table, *sizes[:11], table_stride, *sizes[11:],
                              CAUSAL=causal, D=width, **QUERY)  # fmt: skip
        grid = (triton.cdiv(keys, KEY["BN"]), batch * heads)
        _backward_key[grid](q, k, v, table, grad, log_sum, delta, dk, dv, *sizes, CAUSAL=causal, D=width, **KEY)
        if groups != heads:
            dk, dv = (x.view(batch, groups, heads // groups, keys, width).sum(2) for x in (dk, dv))
        return dq, dk, dv, d_table, None, None, None


# Tile sides, warps and pipeline depth: the fastest of a sweep on an H200 (results/).
FORWARD = {"BM": 64, "BN": 64, "W": 128, "num_warps": 4, "num_stages": 2}
QUERY = {"BM": 64, "BN": 64, "W": 128, "num_warps": 4, "num_stages": 1}
KEY = {"BM": 64, "BN": 64, "W": 128, "num_warps": 4, "num_stages": 2}


def _sizes(q: Tensor, k: Tensor, v: Tensor, table: Tensor, scale: float, table_scale: float) -> tuple:
    strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    table_strides = (0 if len(table) == 1 else table.stride(0), table.stride(1))
    heads, clip = q.shape[1], (table.shape[1] - 1) // 2
    return *strides, *table_strides, heads, heads // k.shape[1], q.shape[2], k.shape[2], clip, scale, table_scale
