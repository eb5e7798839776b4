"""The seven mistakes: sound modules have none, and a module broken in one way is named by that finding and by no other."""

import math
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import foveal
from foveal.explain.check import Report, assert_sound, check
from foveal.explain.diagnosis.finding import MISTAKES
from foveal.layers import MultiHead


def verdicts(report: Report) -> dict[str, str]:
    return {finding.name: finding.verdict for finding in report.findings}


def named(report: Report) -> set[str]:
    return {finding.name for finding in report.mistakes}


class Plain(nn.Module):
    """Self-attention as it is usually written, with every step a method that a broken one replaces."""

    def __init__(self, dim: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def split(self, x):
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)

    def join(self, y):
        return y.transpose(1, 2).flatten(2)

    def scale(self, head_width):
        return 1 / math.sqrt(head_width)

    def hide(self, scores, mask):
        return scores.masked_fill(~mask, -torch.inf)

    def weights(self, scores):
        empty = (scores == -torch.inf).all(-1, keepdim=True)
        return scores.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)

    def drop(self, alpha):
        return F.dropout(alpha, self.dropout, self.training)

    def finish(self, x, y):
        return self.proj(y)

    def forward(self, x, mask=None):
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) * self.scale(q.shape[-1])
        if mask is not None:
            scores = self.hide(scores, mask)
        return self.finish(x, self.join(self.drop(self.weights(scores)) @ v))


class AlwaysDrops(Plain):
    def drop(self, alpha):
        return F.dropout(alpha, self.dropout)


class DropsFused(Plain):
    def forward(self, x, mask=None):
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        return self.proj(self.join(F.scaled_dot_product_attention(q, k, v, mask, dropout_p=self.dropout)))


class DropsTheSame(Plain):
    """The same numbers every time: two evaluations agree, and are still wrong."""

    def drop(self, alpha):
        with torch.random.fork_rng([]):
            torch.manual_seed(0)
            return F.dropout(alpha, self.dropout)


class HidesVisible(Plain):
    def hide(self, scores, mask):
        return scores.masked_fill(mask, -torch.inf)


class IgnoresMask(Plain):
    def hide(self, scores, mask):
        return scores


class AddsBooleans(Plain):
    """A boolean mask, multiplied into the scores: a hidden key has the score 0, which is a score like any other."""

    def hide(self, scores, mask):
        return scores * mask


class Unscaled(Plain):
    def scale(self, head_width):
        return 1.0


class ScaledByWidth(Plain):
    def scale(self, head_width):
        return 1 / math.sqrt(head_width * self.num_heads)


class ScaledTwice(Plain):
    def forward(self, x, mask=None):
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        q *= q.shape[-1] ** -0.5  # in place, in the projection's own memory
        return self.proj(self.join(F.scaled_dot_product_attention(q, k, v, mask)))


class EmptyIsNan(Plain):
    def weights(self, scores):
        return scores.softmax(-1)


class EmptyIsNanBackwards(Plain):
    """0 by nan_to_num, which is finite on the way forward only."""

    def weights(self, scores):
        return scores.softmax(-1).nan_to_num(0)

    def hide(self, scores, mask):
        return scores + torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, -torch.inf)


class NotTransposed(Plain):
    def split(self, x):
        return x.reshape(x.shape[0], self.num_heads, x.shape[1], -1)


class NotTransposedBack(Plain):
    def join(self, y):
        return y.reshape(y.shape[0], y.shape[2], -1)


class AttendsOverHeads(nn.Module):
    """(B, N, H, D) handed to a function that takes (B, H, N, D)."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)) for part in self.qkv(x).chunk(3, -1))
        return self.proj(F.scaled_dot_product_attention(q, k, v).flatten(2))


class BatchSecond(nn.Module):
    """torch's own layer takes (N, B, C) unless told otherwise."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(dim, num_heads)

    def forward(self, x):
        return self.inner(x, x, x)[0]


class AddsItsInput(Plain):
    def finish(self, x, y):
        return x + self.proj(y)


class SigmoidSelfAttention(Plain):
    def weights(self, scores):
        return scores.sigmoid()

    def hide(self, scores, mask):
        return scores.masked_fill(~mask, -torch.inf)


class Decoder(nn.Module):
    """Causal by itself, with a cache that comes back beside the output; `sees` is what a step may look at."""

    def __init__(self, n_embd: int, n_head: int) -> None:
        super().__init__()
        self.n_head = n_head
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)

    def sees(self, queries, keys):
        return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)

    def forward(self, x, layer_past=None, use_cache=False):
        q, k, v = (part.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for part in self.c_attn(x).chunk(3, -1))
        if layer_past is not None:
            k, v = torch.cat([layer_past[0], k], 2), torch.cat([layer_past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, self.sees(q.shape[2], k.shape[2]))
        y = self.c_proj(y.transpose(1, 2).flatten(2))
        return (y, (k, v)) if use_cache else y


class LooksAtFirstKey(Decoder):
    """is_causal=True with fewer queries than keys: the last query stands at the first key."""

    def sees(self, queries, keys):
        return torch.ones(queries, keys, dtype=torch.bool).tril()


class ForgetsOnPrefill(Decoder):
    def sees(self, queries, keys):
        return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries) if queries != 3 else torch.ones(queries, keys, dtype=torch.bool)


class LooksAhead(nn.Module):
    """minGPT's attention with its causal mask the wrong way round: the last token is left with itself."""

    def __init__(self, config) -> None:
        super().__init__()
        self.n_head = config.n_head
        self.c_attn, self.c_proj = nn.Linear(config.n_embd, 3 * config.n_embd), nn.Linear(config.n_embd, config.n_embd)
        self.attn_dropout = nn.Dropout(config.attn_pdrop)
        size = config.block_size
        self.register_buffer("bias", self.pattern(torch.ones(size, size)).view(1, 1, size, size))

    def pattern(self, ones):
        return ones.triu()

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (part.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for part in self.c_attn(x).split(C, 2))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = self.attn_dropout(F.softmax(att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf")), dim=-1))
        return self.c_proj((att @ v).transpose(1, 2).contiguous().view(B, T, C))


class MinGPT(LooksAhead):
    def pattern(self, ones):
        return ones.tril()


@pytest.mark.parametrize("sound", [Plain, Decoder, MinGPT, F.scaled_dot_product_attention, foveal.attend, MultiHead], ids=lambda s: s.__name__)
def test_what_is_sound_has_no_mistake(sound):
    report = check(sound)
    assert report.ok, str(report)
    assert [finding.name for finding in report.findings] == list(MISTAKES)
    assert_sound(sound)


BROKEN = [
    (AlwaysDrops, "dropout"),
    (DropsFused, "dropout"),
    (DropsTheSame, "dropout"),
    (HidesVisible, "mask"),
    (IgnoresMask, "mask"),
    (AddsBooleans, "mask"),
    (LooksAhead, "mask"),
    (Unscaled, "scale"),
    (ScaledByWidth, "scale"),
    (ScaledTwice, "scale"),
    (EmptyIsNan, "empty row"),
    (EmptyIsNanBackwards, "empty row"),
    (LooksAtFirstKey, "cache"),
    (ForgetsOnPrefill, "cache"),
    (NotTransposed, "axes"),
    (NotTransposedBack, "axes"),
    (AttendsOverHeads, "axes"),
    (BatchSecond, "axes"),
    (AddsItsInput, "paper"),
    (SigmoidSelfAttention, "paper"),
]


@pytest.mark.parametrize(("broken", "mistake"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_a_broken_module_is_named_by_its_mistake_alone(broken, mistake):
    report = check(broken)
    assert named(report) == {mistake}, str(report)
    with pytest.raises(AssertionError, match=re.escape(MISTAKES[mistake])):
        assert_sound(broken)
    assert_sound(broken, allow=[mistake])
