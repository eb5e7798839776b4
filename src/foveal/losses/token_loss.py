"""The loss of the next token without ever holding all logits: some tokens at a time, and their gradient at once.

    z = h Eᵀ + b;   L = Σ_t [lse(z_t) − (1 − ε) z_t,y − ε/V Σ_w z_t,w] · a_t
    ∂L/∂z_t = (softmax(z_t) − (1 − ε) 1_y − ε/V) · a_t
    two passes: L = ½ (L¹ + L²) + α/4 · Σ_t a_t [KL(P¹_t ‖ P²_t) + KL(P²_t ‖ P¹_t)],   P = softmax(z)

Symbols: h (T, C) the decoder's output for each token, E (V, C) the table of tokens, y the target tokens, ε the label
    smoothing, a_t = 1/T the weight of a token (0 of padding), lse the log of the sum of exponentials, α the weight of
    R-Drop. Logits are the largest tensor of a small Transformer: 16,384 tokens with 37,000 to choose from are 1.2 GB
    in 16 bits, and cross-entropy of them in float32 reads and writes that several times. Here a chunk's gradient is
    made while its logits are there, and so are the products with it; what is the same for all tokens of the
    vocabulary, ε/V, is of rank 1, and never goes through the large tensor.
Paper, if recipe.r_drop > 0: Xiaobo Liang, Lijun Wu, Juntao Li, Yue Wang, Qi Meng, Tao Qin, Wei Chen, Min Zhang,
    Tie-Yan Liu (2021). R-Drop: regularized dropout for neural networks. NeurIPS. arXiv:2106.14448.
Departs from the paper: half of its loss, so that with α = 0 it is the mean of two passes, as large as that of one.
Cost: the three products of a linear layer, and three passes over a chunk; with R-Drop some ten, over five tensors of
its size.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from foveal.errors import expect

CHUNK = 4096  # tokens at a time: 300 MB of logits in 16 bits with 37,000 to choose from


def token_loss(
    hidden: Tensor,
    table: Tensor,
    tokens: Tensor,
    label_smoothing: float,
    bias: Tensor | None = None,
    chunk: int = CHUNK,
    *,
    counts: Tensor | None = None,
    r_drop: float = 0.0,
) -> Tensor:
    """The mean over tokens (T,) of the smoothed cross-entropy, in float32 at least. counts (T,):
    which of them count; None: all.

    hidden: (T, C), or (2, T, C) of two passes that differ in what dropout hid: their mean, and their divergence, α =
    r_drop.
    """
    passes = hidden if hidden.dim() == 3 else hidden[None]
    expect(len(tokens) > 0, "tokens", "at least one", "none")
    fits = len(passes) == 2 or (len(passes) == 1 and not r_drop)
    expect(fits, "hidden", "two passes with R-Drop, one or two without", len(passes))
    kind = hidden.device.type
    if torch.is_autocast_enabled(kind):  # a LayerNorm hands on float32 there
        passes = passes.to(torch.get_autocast_dtype(kind))
    shares = _shares(tokens, counts, torch.promote_types(passes.dtype, torch.float32))
    chunk = max(1, chunk // len(passes))
    learned = any(one is not None and one.requires_grad for one in (passes, table, bias))
    if not (torch.is_grad_enabled() and learned):
        return _value(passes, table, tokens, label_smoothing, bias, chunk, shares, r_drop)
    parts = passes, table, tokens, label_smoothing, bias, chunk, shares, r_drop
    loss: Tensor = _TokenLoss.apply(*parts)  # type: ignore[no-untyped-call]
    return loss


def _shares(tokens: Tensor, counts: Tensor | None, dtype: torch.dtype) -> Tensor:
    """What each token's loss is multiplied by, (T, 1): they add up to 1."""
    if counts is None:
        return torch.full((1, 1), 1 / len(tokens), dtype=dtype, device=tokens.device).expand(len(tokens), 1)
    return (counts.to(dtype) / counts.sum().clamp(min=1))[:, None]


def _parts(tokens: int, chunk: int) -> list[slice]:
    """Chunks of about one size. Their number is all of `tokens` that a compiled graph takes for a constant."""
    count = -(-tokens // chunk)
    size = -(-tokens // count)
    return [slice(place * size, (place + 1) * size) for place in range(count)]


def _value(
    passes: Tensor,
    table: Tensor,
    tokens: Tensor,
    label_smoothing: float,
    bias: Tensor | None,
    chunk: int,
    shares: Tensor,
    r_drop: float,
) -> Tensor:
    own = passes.dtype
    cast, bias = table.to(own), None if bias is None else bias.to(own)
    total = shares.new_zeros(())
    with torch.autocast(passes.device.type, enabled=False):
        for part in _parts(len(tokens), chunk):
            log_p = _log_probability(F.linear(passes[:, part], cast, bias))
            total = total + _entropy(log_p, tokens[part], label_smoothing, shares[part])
            if r_drop:
                total = total + r_drop / 4 * (_divergence(log_p)[2] * shares[part]).sum()
    return total


class _TokenLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        passes: Tensor,
        table: Tensor,
        tokens: Tensor,
        label_smoothing: float,
        bias: Tensor | None,
        chunk: int,
        shares: Tensor,
        r_drop: float,
    ) -> Tensor:
        own, exact, count = passes.dtype, shares.dtype, len(passes)
        with torch.autocast(passes.device.type, enabled=False):
            cast, added = table.to(own), None if bias is None else bias.to(own)
            total = shares.new_zeros(())
            of_passes = torch.empty_like(passes)
            spread, right = label_smoothing / (len(table) * count), (1 - label_smoothing) / count
            weighed = (passes * shares).to(own)
            of_table = (weighed.sum((0, 1), dtype=exact) * -spread).expand(len(table), -1).clone()
            of_bias = None if bias is None else (-spread * count * shares.sum()).expand(len(bias)).clone()
            uniform = spread * cast.sum(0, dtype=exact)
            for part in _parts(len(tokens), chunk):
                log_p = _log_probability(F.linear(passes[:, part], cast, added))
                total += _entropy(log_p, tokens[part], label_smoothing, shares[part])
                if r_drop:
                    p, difference, distance = _divergence(log_p)
                    total += r_drop / 4 * (distance * shares[part]).sum()
                    # By z, KL has the gradient P ∘ (log P − log P′ − KL), and that of the other way round is P − P′.
                    gradient = p / 2 + r_drop / 4 * (p * (difference - distance) + p - p.flip(0))
                else:
                    gradient = log_p.exp() / count if torch.compiler.is_compiling() or count > 1 else log_p.exp_()
                # (P, t, V): the gradient by z is a_t (this − ε/VP)
                gradient = _less(gradient, tokens[part], right).to(own)
                of_passes[:, part] = ((gradient @ cast - uniform) * shares[part]).to(own)
                for one, hidden in zip(gradient, weighed[:, part], strict=True):
                    of_table += one.mT @ hidden
                    if of_bias is not None:
                        of_bias += shares[part, 0] @ one.to(exact)
        context.save_for_backward(
            of_passes, of_table.to(table.dtype), None if of_bias is None or bias is None else of_bias.to(bias.dtype)
        )
        return total

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        # A loss is scaled by more than float16 holds before it is small enough for it.
        scaled = [
            None if one is None else (one.to(gradient.dtype) * gradient).to(one.dtype) for one in context.saved_tensors
        ]
        return scaled[0], scaled[1], None, None, scaled[2], None, None, None


def _log_probability(logits: Tensor) -> Tensor:
    """log P, in float32 at least."""
    return logits.log_softmax(2, torch.promote_types(logits.dtype, torch.float32))


def _entropy(log_p: Tensor, tokens: Tensor, label_smoothing: float, shares: Tensor) -> Tensor:
    """A chunk's part of the mean of all passes' smoothed cross-entropy."""
    of_target = log_p.gather(2, _places(log_p, tokens))
    return -(((1 - label_smoothing) * of_target + label_smoothing * log_p.mean(2, keepdim=True)) * shares).sum() / len(
        log_p
    )


def _divergence(log_p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """P of both passes, log P − log P′, and the KL of each pass from the other (2, t, 1)."""
    p, difference = log_p.exp(), log_p - log_p.flip(0)
    return p, difference, (p * difference).sum(2, keepdim=True)


def _less(gradient: Tensor, tokens: Tensor, right: float) -> Tensor:
    """With `right` less at the target token."""
    places = _places(gradient, tokens)
    if torch.compiler.is_compiling():  # fused with what made it; a scatter would need it in 32 bits first
        return gradient - right * (torch.arange(gradient.shape[2], device=gradient.device) == places)
    return gradient.scatter_add_(2, places, gradient.new_full(places.shape, -right))


def _places(log_p: Tensor, tokens: Tensor) -> Tensor:
    return tokens[None, :, None].expand(len(log_p), -1, 1)
