"""The loss of the next word without ever holding all logits: some words at a time, and their gradient at once.

    z = h Eᵀ + b;   L = Σ_t [lse(z_t) − (1 − ε) z_t,y − ε/V Σ_w z_t,w] · a_t;   ∂L/∂z_t = (softmax(z_t) − (1 − ε) 1_y − ε/V) · a_t
    two passes: L = ½ (L¹ + L²) + α/4 · Σ_t a_t [KL(P¹_t ‖ P²_t) + KL(P²_t ‖ P¹_t)],   P = softmax(z)

Symbols: h (T, C) what the decoder says of each word, E (V, C) the table of words, y the words that came, ε the smoothing, a_t = 1/T the share of a word (0 of padding), lse the log of the sum of exponentials.
Logits are the largest tensor of a small Transformer: 16,384 words with 37,000 to choose from are 1.2 GB in 16 bits, and cross-entropy of them in
float32 reads and writes that several times. Here a chunk's logits become their own gradient, and the products with it are made while it is there.
Paper: Xiaobo Liang, Lijun Wu, Juntao Li, Yue Wang, Qi Meng, Tao Qin, Wei Chen, Min Zhang, Tie-Yan Liu (2021). R-Drop: regularized dropout for neural networks. NeurIPS. arXiv:2106.14448.
Cost: the three products of a linear layer, and three passes over a chunk.
"""

from collections.abc import Iterator
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
    agreement: float = 0.0,
) -> Tensor:
    """The mean over words (T,) of the smoothed cross-entropy, in float32 at least. counts (T,): which of them count; None: all.

    hidden: (T, C), or (2, T, C) of two passes that differ in what dropout hid: their mean, and what they disagree about, α = agreement.
    """
    kind = hidden.device.type
    if torch.is_autocast_enabled(kind):  # a LayerNorm hands on float32 there
        hidden = hidden.to(torch.get_autocast_dtype(kind))
    shares = _shares(words, counts, torch.promote_types(hidden.dtype, torch.float32))
    passes = hidden if hidden.dim() == 3 else hidden[None]
    if not (torch.is_grad_enabled() and (hidden.requires_grad or table.requires_grad)):
        with torch.autocast(kind, enabled=False):
            return sum(value for _, value, _ in _chunks(passes, table, words, smoothing, bias, chunk, shares, agreement))  # type: ignore[return-value]
    loss: Tensor = _WordLoss.apply(passes, table, words, smoothing, bias, chunk, shares, agreement)  # type: ignore[no-untyped-call]
    return loss


def _shares(words: Tensor, counts: Tensor | None, dtype: torch.dtype) -> Tensor:
    """What each word's loss is multiplied by, (T, 1): they add up to 1."""
    if counts is None:
        return torch.full((1, 1), 1 / len(words), dtype=dtype, device=words.device).expand(len(words), 1)
    return (counts.to(dtype) / counts.sum())[:, None]


def _chunks(
    passes: Tensor, table: Tensor, words: Tensor, smoothing: float, bias: Tensor | None, chunk: int, shares: Tensor, agreement: float
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Which words, their part of the loss, and G (P, t, V), of which a_t (G − ε/VP) is the gradient by their logits."""
    own = passes.dtype
    cast, bias = table.to(own), None if bias is None else bias.to(own)
    for start in range(0, len(words), chunk):
        part = slice(start, start + chunk)
        logits = F.linear(passes[:, part], cast, bias)
        yield part, *_of_logits(logits, words[part], smoothing, shares[part], agreement)


class _WordLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        passes: Tensor,
        table: Tensor,
        words: Tensor,
        smoothing: float,
        bias: Tensor | None,
        chunk: int,
        shares: Tensor,
        agreement: float,
    ) -> Tensor:
        with torch.autocast(passes.device.type, enabled=False):
            own, exact = passes.dtype, torch.promote_types(passes.dtype, torch.float32)
            cast = table.to(own)
            total = passes.new_zeros((), dtype=exact)
            of_passes = torch.empty_like(passes)
            # What is the same for all words of the vocabulary, ε/VP, is of rank 1: it never goes through the large tensor, and neither do the shares.
            spread = smoothing / (len(table) * len(passes))
            weighed = (passes * shares).to(own)
            of_table = (weighed.sum((0, 1), dtype=exact) * -spread).expand(len(table), -1).clone()
            of_bias = None if bias is None else torch.full_like(bias, -spread * len(passes), dtype=exact)  # shares add up to 1
            uniform = spread * cast.sum(0, dtype=exact)
            for part, value, gradient in _chunks(passes, table, words, smoothing, bias, chunk, shares, agreement):
                total += value
                of_passes[:, part] = ((gradient @ cast - uniform) * shares[part]).to(own)
                for one, hidden in zip(gradient, weighed[:, part], strict=True):
                    of_table += one.mT @ hidden
                    if of_bias is not None:
                        of_bias += shares[part, 0] @ one.to(exact)
        context.save_for_backward(of_passes, of_table.to(table.dtype), None if of_bias is None or bias is None else of_bias.to(bias.dtype))
        return total

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        scaled = [None if one is None else one * gradient.to(one.dtype) for one in context.saved_tensors]
        return scaled[0], scaled[1], None, None, scaled[2], None, None, None


def _of_logits(logits: Tensor, words: Tensor, smoothing: float, shares: Tensor, agreement: float) -> tuple[Tensor, Tensor]:
    """Of a chunk (P, t, V), with each word's share (t, 1): its part of the loss, and G in the logits' own dtype."""
    said = logits.log_softmax(2, torch.promote_types(logits.dtype, torch.float32))
    place = words[None, :, None].expand(len(said), -1, 1)
    value = -(((1 - smoothing) * said.gather(2, place) + smoothing * said.mean(2, keepdim=True)) * shares).sum() / len(said)
    if len(said) == 1 or not agreement:
        gradient = said.exp() if torch.compiler.is_compiling() else said.exp_()
        gradient = gradient if len(said) == 1 else gradient / len(said)
    else:
        p = said.exp()
        apart = said - said.flip(0)
        distance = (p * apart).sum(2, keepdim=True)  # KL of each pass from the other
        value = value + agreement / 4 * (distance * shares).sum()
        # By z, KL has the gradient P ∘ (log P − log P′ − KL), and that of the other way round is P − P′.
        gradient = p / 2 + agreement / 4 * (p * (apart - distance) + p - p.flip(0))
    right = (1 - smoothing) / len(said)
    if torch.compiler.is_compiling():  # fused with all of the above; a scatter would need it in 32 bits first
        gradient = gradient - right * (torch.arange(said.shape[2], device=said.device) == place)
    else:
        gradient.scatter_add_(2, place, gradient.new_full(place.shape, -right))
    return value, gradient.to(logits.dtype)
