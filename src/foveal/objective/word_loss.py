"""The loss of the next word without ever holding all logits: some words at a time, and their gradient at once.

    z = h Eᵀ + b;   L = Σ_t [lse(z_t) − (1 − ε) z_t,y − ε/V Σ_w z_t,w] · a_t;   ∂L/∂z_t = (softmax(z_t) − (1 − ε) 1_y − ε/V) · a_t

Symbols: h (T, C) what the decoder says of each word, E (V, C) the table of words, y the words that came, ε the smoothing, a_t = 1/T the share of a word (0 of padding), lse the log of the sum of exponentials.
Logits are the largest tensor of a small Transformer: 16,384 words with 37,000 to choose from are 1.2 GB in 16 bits, and cross-entropy of them in
float32 reads and writes that several times. Here a chunk's logits become their own gradient, and the products with it are made while it is there.
Cost: the three products of a linear layer, and two passes over a chunk.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

CHUNK = 4096  # words at a time: 300 MB of logits in 16 bits with 37,000 to choose from


def word_loss(
    hidden: Tensor,
    table: Tensor,
    words: Tensor,
    smoothing: float,
    bias: Tensor | None = None,
    chunk: int = CHUNK,
    *,
    counts: Tensor | None = None,
) -> Tensor:
    """The mean over words (T,) of the smoothed cross-entropy, in float32 at least. counts (T,): which of them count; None: all."""
    kind = hidden.device.type
    if torch.is_autocast_enabled(kind):  # a LayerNorm hands on float32 there
        hidden = hidden.to(torch.get_autocast_dtype(kind))
    shares = _shares(words, counts, torch.promote_types(hidden.dtype, torch.float32))
    if not (torch.is_grad_enabled() and (hidden.requires_grad or table.requires_grad)):
        return _value(hidden, table, words, smoothing, bias, chunk, shares)
    loss: Tensor = _WordLoss.apply(hidden, table, words, smoothing, bias, chunk, shares)  # type: ignore[no-untyped-call]
    return loss


def _shares(words: Tensor, counts: Tensor | None, dtype: torch.dtype) -> Tensor:
    """What each word's loss is multiplied by, (T, 1): they add up to 1."""
    if counts is None:
        return torch.full((1, 1), 1 / len(words), dtype=dtype, device=words.device).expand(len(words), 1)
    return (counts.to(dtype) / counts.sum())[:, None]


def _value(hidden: Tensor, table: Tensor, words: Tensor, smoothing: float, bias: Tensor | None, chunk: int, shares: Tensor) -> Tensor:
    total = hidden.new_zeros((), dtype=torch.promote_types(hidden.dtype, torch.float32))
    for start in range(0, len(words), chunk):
        part = slice(start, start + chunk)
        logits = F.linear(hidden[part], table.to(hidden.dtype), None if bias is None else bias.to(hidden.dtype))
        losses = F.cross_entropy(logits.to(total.dtype), words[part], label_smoothing=smoothing, reduction="none")
        total = total + losses @ shares[part, 0]
    return total


class _WordLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, hidden: Tensor, table: Tensor, words: Tensor, smoothing: float, bias: Tensor | None, chunk: int, shares: Tensor
    ) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            own, exact = hidden.dtype, torch.promote_types(hidden.dtype, torch.float32)
            cast = table.to(own)
            total = hidden.new_zeros((), dtype=exact)
            of_hidden = torch.empty_like(hidden)
            of_table = torch.zeros_like(table, dtype=exact)
            of_bias = None if bias is None else torch.zeros_like(bias, dtype=exact)
            for start in range(0, len(words), chunk):
                part = slice(start, start + chunk)
                logits = F.linear(hidden[part], cast, None if bias is None else bias.to(own))
                value, gradient = _of_logits(logits, words[part], smoothing, shares[part])
                total += value
                torch.mm(gradient, cast, out=of_hidden[part])
                of_table += gradient.mT @ hidden[part]
                if of_bias is not None:
                    of_bias += gradient.sum(0, dtype=exact)
        context.save_for_backward(of_hidden, of_table.to(table.dtype), None if of_bias is None or bias is None else of_bias.to(bias.dtype))
        return total

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        of_hidden, of_table, of_bias = context.saved_tensors
        scaled = [None if one is None else one * gradient.to(one.dtype) for one in (of_hidden, of_table, of_bias)]
        return scaled[0], scaled[1], None, None, scaled[2], None, None


def _of_logits(logits: Tensor, words: Tensor, smoothing: float, shares: Tensor) -> tuple[Tensor, Tensor]:
    """Of a chunk (t, V), with each word's share (t, 1): its part of the loss, and the gradient of it in the logits' own dtype."""
    exact = torch.promote_types(logits.dtype, torch.float32)
    z = logits.to(exact)
    total = z.logsumexp(1, keepdim=True)
    spread = smoothing / z.shape[1]
    said = z.gather(1, words[:, None])
    value = ((total - (1 - smoothing) * said - spread * z.sum(1, keepdim=True)) * shares).sum()
    gradient = ((z - total).exp() - spread) * shares
    gradient.scatter_add_(1, words[:, None], (smoothing - 1) * shares)
    return value, gradient.to(logits.dtype)
