"""The seven mistakes: sound modules have none, and a module broken in one way is named by that finding and by no
other.
"""

import argparse
import math
import re
import warnings
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import foveal
import foveal.core.observe
from foveal.app.command import check as command
from foveal.errors import FovealError
from foveal.explain.check import Finding, Report, assert_sound, check
from foveal.explain.diagnosis.adapt import adapt
from foveal.explain.diagnosis.finding import MISTAKES
from foveal.explain.diagnosis.masking import promised
from foveal.layers import Context, MultiHead
from foveal.position import Rotary


def verdicts(report: Report) -> dict[str, str]:
    return {finding.name: finding.outcome for finding in report.findings}


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


class MultipliesMask(Plain):
    """A hidden key has the score 0, which is a score like any other."""

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


class NotTransposedInABlock(NotTransposed):
    """What comes after the attention does not hide what is wrong in it."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__(dim, num_heads)
        self.feed_forward = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def finish(self, x, y):
        return self.feed_forward(x + self.proj(y))


class MixesSamples(Plain):
    def finish(self, x, y):
        return self.proj(y - y.mean(0))


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


class ForgetsTheFirst(Decoder):
    """A single token is taken for a step, and a step for one that has a past."""

    def forward(self, x, layer_past=None, use_cache=False):
        answer = super().forward(x, layer_past, use_cache)
        if use_cache and layer_past is None and x.shape[1] == 1:
            y, (k, v) = answer
            return y, (k[:, :, :0], v[:, :, :0])
        return answer


class ForgetsToHide(Decoder):
    """One step at a time it is right; some tokens at once, while the cache is empty, see each other."""

    def forward(self, x, layer_past=None, use_cache=False):
        self.decoding = use_cache
        return super().forward(x, layer_past, use_cache)

    def sees(self, queries, keys):
        return super().sees(queries, keys) | self.decoding


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
        q, k, v = (
            part.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for part in self.c_attn(x).split(C, 2)
        )
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = self.attn_dropout(F.softmax(att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf")), dim=-1))
        return self.c_proj((att @ v).transpose(1, 2).contiguous().view(B, T, C))


class MinGPT(LooksAhead):
    def pattern(self, ones):
        return ones.tril()


class LooksOneAhead(LooksAhead):
    """triu(ones, diagonal=2) is hidden, where diagonal=1 is meant."""

    def pattern(self, ones):
        return ones.tril(1)


class LooksTwoAhead(LooksAhead):
    """No usual slip: somebody may want it."""

    def pattern(self, ones):
        return ones.tril(2)


class SmoothsWhatIsCausal(MinGPT):
    """The mask is right; a mean with the next token comes after it."""

    def forward(self, x):
        y = super().forward(x)
        return y + y.roll(-1, 1) * (torch.arange(y.shape[1]) < y.shape[1] - 1)[:, None]


SOUND = [Plain, Decoder, MinGPT, F.scaled_dot_product_attention, foveal.attend, MultiHead]


@pytest.mark.parametrize("sound", SOUND, ids=lambda sound: sound.__name__)
def test_what_is_sound_has_no_mistake(sound):
    report = check(sound)
    assert report.ok, str(report)
    assert [finding.name for finding in report.findings] == list(MISTAKES)
    assert_sound(sound)


def test_everything_can_be_measured_on_foveals_own_layer():
    assert set(verdicts(check(MultiHead)).values()) == {"ok"}
    turned = check(MultiHead(24, 4, groups=2, mask=foveal.mask.causal, position=Rotary(6)))
    assert verdicts(turned) == {**dict.fromkeys(MISTAKES, "ok"), "paper": "not applicable"}, str(turned)
    assert turned["scale"].numbers["measured"] == pytest.approx(6**-0.5)  # through the rotation


@pytest.mark.parametrize("batch_first", [False, True])
def test_torchs_own_layer_gives_nan_for_an_empty_row_and_nothing_else(batch_first):
    layer = nn.MultiheadAttention(20, 4, dropout=0.1, batch_first=batch_first)
    report = check(layer)
    assert named(report) == {"empty row"}, str(report)
    assert verdicts(report) == {**dict.fromkeys(MISTAKES, "ok"), "empty row": "mistake", "cache": "not applicable"}
    keep = torch.ones(7, 7, dtype=torch.bool)
    x = torch.randn(7, 7, 20)
    assert layer.eval()(x, x, x, attn_mask=keep)[0].isnan().all()  # the witness: torch itself


def test_torchs_layer_with_other_widths_of_keys_and_with_biases():
    assert named(check(nn.MultiheadAttention(20, 2, kdim=6, vdim=14))) == {"empty row"}
    # transposes inside, where torch adds the bias as a step of its own
    layer = nn.MultiheadAttention(20, 2, batch_first=True)
    nn.init.normal_(layer.in_proj_bias)
    nn.init.normal_(layer.out_proj.bias)
    assert check(layer)["paper"].outcome == "ok"


def test_nan_that_only_the_fast_path_gives_is_found():
    # it takes it in evaluation, without gradients
    assert named(check(nn.TransformerEncoderLayer(20, 2, batch_first=True))) == {"empty row"}
    assert named(check(nn.TransformerEncoderLayer(20, 2, batch_first=False))) == set()


def test_one_head_and_a_position_are_no_mistake():
    assert check(Plain(20, 1)).ok
    assert check(MultiHead(20, 2, position=Rotary(10)))["axes"].outcome == "ok"


def test_a_query_that_knows_its_past_is_not_held_against_the_mask():
    report = check(Context)
    assert report.ok, str(report)
    assert report["mask"].outcome == report["axes"].outcome == "ok"


def test_x_transformers_is_sound():
    attention = pytest.importorskip("x_transformers.x_transformers").Attention
    for layer in (attention, attention(32, heads=4, dim_head=8, causal=True)):
        report = check(layer)
        assert set(verdicts(report).values()) == {"ok"}, str(report)


def test_transformers_decodes_with_its_own_cache():
    gpt2 = pytest.importorskip("transformers.models.gpt2")
    config = gpt2.GPT2Config(n_embd=20, n_head=2, attn_implementation="eager")
    report = check(gpt2.modeling_gpt2.GPT2Attention(config, layer_idx=0))
    assert report.ok, str(report)
    assert report["cache"].outcome == "ok"
    assert "added to the scores" in report["mask"].message


BROKEN = [
    (AlwaysDrops, "dropout"),
    (DropsFused, "dropout"),
    (DropsTheSame, "dropout"),
    (HidesVisible, "mask"),
    (IgnoresMask, "mask"),
    (MultipliesMask, "mask"),
    (LooksAhead, "mask"),
    (LooksOneAhead, "mask"),
    (Unscaled, "scale"),
    (ScaledByWidth, "scale"),
    (ScaledTwice, "scale"),
    (EmptyIsNan, "empty row"),
    (EmptyIsNanBackwards, "empty row"),
    (LooksAtFirstKey, "cache"),
    (ForgetsToHide, "cache"),
    (ForgetsTheFirst, "cache"),
    (NotTransposed, "axes"),
    (NotTransposedBack, "axes"),
    (NotTransposedInABlock, "axes"),
    (MixesSamples, "axes"),
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


def test_numbers_are_those_measured():
    scale = check(Unscaled)["scale"]
    assert scale.numbers == {"measured": pytest.approx(1.0), "expected": pytest.approx(10**-0.5)}
    assert "no scale at all" in scale.message
    assert "the whole width" in check(ScaledByWidth)["scale"].message
    assert check(ScaledTwice)["scale"].numbers["measured"] == pytest.approx(0.1)
    mask = check(HidesVisible)["mask"].numbers
    assert mask["moved by a hidden token"] > 0.1 > mask["moved by a visible token"] == 0
    # one query in each of 3 samples
    assert check(EmptyIsNan)["empty row"].numbers == {"measured": 3.0, "expected": 0.0}
    assert check(AlwaysDrops)["dropout"].numbers["measured"] > 0.01
    assert check(LooksAtFirstKey)["cache"].numbers["measured"] > 0.01
    # The residual is the tokens themselves, so the error is the largest of them.
    assert check(AddsItsInput)["paper"].numbers["measured"] == pytest.approx(
        float(adapt(AddsItsInput).sample().abs().max())
    )


class Declared(AddsItsInput):
    """Departs from the paper: the input is added to the output."""


class DeclaresNothing(AddsItsInput):
    """Departs from the paper: nothing."""


class OfAnotherPaper(SigmoidSelfAttention):
    """Sigmoid attention, arXiv:2409.04431."""


def test_a_departure_that_is_announced_is_none():
    finding = check(Declared)["paper"]
    assert finding.outcome == "ok"
    assert "the input is added to the output" in finding.message
    assert check(DeclaresNothing)["paper"].outcome == "mistake"
    other = check(OfAnotherPaper)["paper"]
    assert (other.outcome, "2409.04431" in other.message) == ("not applicable", True)


def test_what_true_means_can_be_given():
    assert named(check(HidesVisible, true_means="hide")) == set()
    assert named(check(Plain, true_means="hide")) == {"mask"}
    with pytest.raises(FovealError, match="true_means: expected 'look' or 'hide', got 'see'"):
        check(Plain, true_means="see")


class DocumentedHide(HidesVisible):
    """mask: True marks the keys that are hidden."""


class Padded(Plain):
    def forward(self, x, key_padding_mask=None):
        return super().forward(x, None if key_padding_mask is None else self.turned(key_padding_mask)[:, None, None])

    def turned(self, padding):
        return ~padding


class PaddedWrongly(Padded):
    def turned(self, padding):
        return padding


def test_a_promise_about_the_mask_is_held_against_the_module():
    assert named(check(DocumentedHide)) == set()
    assert named(check(Padded)) == set()
    assert named(check(PaddedWrongly)) == {"mask"}
    assert promised(adapt(Plain), "mask")[0] == "look"
    assert promised(adapt(DocumentedHide), "mask")[0] == "hide"
    assert promised(adapt(Plain), "key_padding_mask")[0] == "hide"


class Added(Plain):
    """Takes what is added to the scores, of shape (B, 1, N, M)."""

    def hide(self, scores, mask):
        if mask.dtype == torch.bool or mask.dim() != 4:
            raise TypeError("an additive mask of 4 axes")
        return scores + mask


class OneOrZero(Plain):
    def hide(self, scores, mask):
        return scores + (1.0 - mask[:, None]) * -1e4


class NeedsMask(Plain):
    def forward(self, x, mask):
        return super().forward(x, mask == 1)


@pytest.mark.parametrize("kind", [Added, OneOrZero, NeedsMask])
def test_masks_of_every_kind_are_found(kind):
    report = check(kind)
    assert report.ok, str(report)
    assert report["mask"].outcome == "ok"
    assert ("added to the scores" in report["mask"].message) == (kind is Added)


class Block(Plain):
    """Attention, a residual and a norm: not the equation alone, and it does not pretend to be."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__(dim, num_heads)
        self.norm = nn.LayerNorm(dim)

    def finish(self, x, y):
        return self.norm(x + self.proj(y))


class BlockThatIgnores(Block):
    def hide(self, scores, mask):
        return scores


class WithAConvolution(Block):
    """Neighbours reach each other on a second way, which no mask closes."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__(dim, num_heads)
        self.mixer = nn.Conv1d(dim, dim, 3, padding=1)

    def finish(self, x, y):
        return super().finish(x + self.mixer(x.mT).mT, y)


def test_a_block_is_checked_by_its_attention():
    assert check(Block)["paper"].outcome == "not applicable"
    assert named(check(Block)) == set()
    assert named(check(BlockThatIgnores)) == {"mask"}
    second = check(WithAConvolution)
    assert named(second) == set()
    assert second["mask"].outcome == "not applicable"


def by_hand(q, k, v):
    """No softmax that could be seen: the weights are solved from the output."""
    weights = torch.exp(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5)
    return weights / weights.sum(-1, keepdim=True) @ v


def by_hand_unscaled(query, key, value):
    return by_hand(query * query.shape[-1] ** 0.5, key, value)


def tokens_second(q, k, v):
    """(B, N, H, D), as flash_attn takes it."""
    return F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2)


def test_functions_on_heads():
    report = check(by_hand)
    assert report.ok, str(report)
    assert {report[name].outcome for name in ("scale", "axes", "paper")} == {"ok"}
    assert named(check(by_hand_unscaled)) == {"scale"}
    assert named(check(tokens_second)) == {"axes"}
    assert named(check(tokens_second, layout="bnhd")) == set()


class InsistsOnAKernel(Plain):
    def forward(self, x):
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return self.proj(
                self.join(F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale(q.shape[-1])))
            )


class InsistsUnscaled(InsistsOnAKernel):
    def scale(self, head_width):
        return 1.0


def test_scores_inside_a_fused_kernel_are_measured():
    report = check(InsistsOnAKernel)
    assert report["scale"].outcome == report["paper"].outcome == "ok", str(report)
    assert named(check(InsistsUnscaled)) == {"scale"}


def test_a_layer_for_tokens_first_is_sound_if_that_is_meant():
    assert "layout='nbc'" in check(BatchSecond)["axes"].message
    assert named(check(BatchSecond, layout="nbc")) == set()


@dataclass
class Config:
    n_embd: int = 768
    n_head: int = 12
    block_size: int = 1024
    attn_pdrop: float = 0.1


class Typed(MinGPT):
    def __init__(self, config: Config) -> None:
        super().__init__(config)


def test_constructors_are_guessed():
    assert check(Typed).ok
    assert "C=20" in check(Plain).how
    assert "C=12" in check(Plain, arguments={"dim": 12, "num_heads": 3}).how
    assert "C=30" in check(Plain, arguments={"num_heads": 3}).how
    assert "C=24" in check(MinGPT, arguments={"n_embd": 24}).how


class Odd(nn.Module):
    def __init__(self, frobnication) -> None:
        super().__init__()
        self.inner = Plain(20, 2)

    def forward(self, x, grid, mask=None):
        return self.inner(x.unflatten(1, grid).flatten(1, 2), mask)


def test_what_cannot_be_guessed_is_an_error_that_says_how_to_go_on():
    with pytest.raises(
        FovealError, match=r"Odd: expected constructor arguments .*Odd\(frobnication\).*--set name=value"
    ):
        check(Odd)
    with pytest.raises(
        FovealError,
        match=r"Odd: expected a call .*forward\(x, grid, mask=None\).*"
        "pass call=lambda module, x, mask.*--layout, --shape B,N,C or --set",
    ):
        check(Odd(1))
    with pytest.raises(FovealError, match="no token moves another"):
        check(nn.Linear(20, 20))
    with pytest.raises(FovealError, match="arguments: expected a class"):
        check(Plain(20, 2), arguments={"dim": 3})
    with pytest.raises(FovealError, match="layout: expected one of bnc"):
        check(Plain, layout="bhwc")
    with pytest.raises(FovealError, match="what is checked: expected a module"):
        check(3)
    with pytest.raises(FovealError, match="no finding is called 'masks'"):
        assert_sound(Plain, allow=["masks"])


def test_a_causal_mask_that_is_one_off_is_distinguished_from_what_only_looks_so():
    finding = check(LooksOneAhead)["mask"]
    assert "query i sees key i + 1" in finding.message
    assert finding.numbers["moved by the next token"] > 0.01
    for other in (LooksTwoAhead, SmoothsWhatIsCausal):
        assert check(other)["mask"].outcome == "not applicable"
    assert check(LooksOneAhead, shape=(3, 2, 20))["mask"].outcome == "not applicable"  # of two tokens, each sees all


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": 3}, r"shape: expected \(B, N, C\), integers above 0, got 3"),
        ({"shape": "abc"}, "shape: .* got 'abc'"),
        ({"shape": (3, 7.5, 20)}, "shape: .* got"),
        ({"shape": (3, 0, 20)}, "shape: .* got"),
        ({"arguments": 3}, "arguments: expected a dictionary name → value, got int"),
        ({"step": 3}, r"step: expected a function \(module, x, cache\) → \(output, cache\), got int"),
        ({"call": 3}, r"call: expected a function \(module, x, mask\) → output, got int"),
        ({"layout": ["bnc"]}, "layout: expected one of bnc"),
    ],
)
def test_options_of_another_kind_are_an_error(options, message):
    with pytest.raises(FovealError, match=message):
        check(Plain, **options)


class FailsLater(Plain):
    """Three good calls, then `fail`."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__(dim, num_heads)
        self.calls = [0]

    def __deepcopy__(self, memo):
        return self

    def fail(self, x):
        raise OSError("the disk\nis full")

    def forward(self, x):
        self.calls[0] += 1
        return super().forward(x) if self.calls[0] <= 3 else self.fail(x)


class AnswersNothingLater(FailsLater):
    def fail(self, x):
        return None


class AnswersAnotherShapeLater(FailsLater):
    def fail(self, x):
        return x[:, :2]


class BadTextError(Exception):
    def __str__(self):
        raise SystemExit(0)


class FailsWithoutAText(FailsLater):
    def fail(self, x):
        raise BadTextError


@pytest.mark.parametrize(
    ("kind", "got"),
    [
        (FailsLater, "OSError: the disk is full"),
        (AnswersNothingLater, "NoneType"),
        (AnswersAnotherShapeLater, "2, 20"),
        (FailsWithoutAText, "BadTextError"),
    ],
)
def test_a_module_that_fails_later_is_an_error(kind, got):
    with pytest.raises(FovealError, match=got) as caught:
        check(kind)
    assert "\n" not in str(caught.value)
    assert kind.__name__ in str(caught.value)


class KnowsNothing:
    """Its __getattr__ raises something other than AttributeError."""

    def __getattr__(self, name):
        raise ValueError(f"no {name}")

    def __call__(self, x):
        return x


def test_an_object_that_refuses_to_be_looked_at_is_an_error():
    with pytest.raises(FovealError, match="KnowsNothing"):
        check(KnowsNothing())


class Asynchronous(nn.Module):
    async def forward(self, x):
        return x


class BuiltLater(nn.Module):
    async def __init__(self):
        pass


async def later(module, x, cache):
    return module(x), cache


def test_what_has_to_be_awaited_is_an_error_without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FovealError, match=r"Asynchronous: .* async def"):
            check(Asynchronous)
        with pytest.raises(FovealError, match="BuiltLater: expected constructor arguments"):
            check(BuiltLater)
        assert "async def" in check(Decoder, step=later)["cache"].message


def test_an_adapter_takes_the_place_of_the_guess():
    report = check(Odd(1), call=lambda module, x, mask: module(x, (x.shape[1], 1), mask), shape=(3, 7, 20))
    assert report.ok, str(report)
    assert report["mask"].outcome == report["scale"].outcome == report["paper"].outcome == "ok"
    unused = check(Odd(1), call=lambda module, x, mask: module(x, (x.shape[1], 1)))
    assert unused["mask"].outcome == unused["empty row"].outcome == "not applicable"
    with pytest.raises(FovealError, match="pass call="):
        check(Odd(1), call=lambda module, x, mask: module(x))


class Remembers(nn.Module):
    """A cache that nobody could guess: a number and a list of what was projected."""

    def __init__(self, right: bool) -> None:
        super().__init__()
        self.inner, self.right = Decoder(20, 2), right

    def forward(self, x):
        return self.inner(x)

    def step(self, x, seen):
        seen = [*seen, x] if self.right else [*seen[-2:], x]
        return self.inner(torch.cat(seen, 1))[:, -x.shape[1] :], seen


def test_a_step_can_be_shown():
    for right, outcome in ((True, "ok"), (False, "mistake")):
        report = check(Remembers(right), step=lambda module, x, cache: module.step(x, cache or []))
        assert report["cache"].outcome == outcome, str(report)
    assert check(Remembers(True))["cache"].outcome == "not applicable"


def test_the_module_stays_as_it_is():
    layer = Plain(20, 2, dropout=0.1)
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    check(layer)
    assert torch.equal(torch.rand(3), expected)  # no random numbers are used up
    assert layer.training
    assert layer.dropout == 0.1
    assert all(
        torch.equal(before[name], tensor) and tensor.dtype == torch.float32
        for name, tensor in layer.state_dict().items()
    )
    assert not foveal.core.observe.observers


def test_a_report_is_a_table():
    report = Report(
        "Name", "forward(x)", (Finding("scale", "mistake", "too large", {}), Finding("cache", "ok", "fine", {}))
    )
    text = str(report)
    assert text.splitlines()[0] == "Name"
    assert re.search(r"^a wrong scale +MISTAKE +too large$", text, re.MULTILINE)
    assert re.search(r"^cached decoding differs from the full pass +ok +fine$", text, re.MULTILINE)
    assert text.endswith("1 mistake: scale (2 of 2 could be measured)")
    assert not report.ok
    assert report["cache"].message == "fine"
    with pytest.raises(FovealError, match="nearest is 'mask'"):
        report["maks"]


def ran(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(list(words)))


def test_the_command(tmp_path, capsys):
    assert ran("torch.nn:MultiheadAttention", "--set", "embed_dim=24", "num_heads=4", "batch_first=True") == 1
    shown = capsys.readouterr().out
    assert "1 mistake: empty row" in shown
    assert "C=24" in shown
    assert ran("foveal.layers.multihead:MultiHead") == 0
    file = tmp_path / "some_attention.py"
    file.write_text(
        "from torch.nn import MultiheadAttention\n\nclass Mine(MultiheadAttention):\n    pass\n\nNUMBER = 3\n"
    )
    assert ran(f"{file}:Mine") == 1
    assert ran("torch.nn.functional:scaled_dot_product_attention", "--true-means", "hide") == 1
    assert "mistake: mask" in capsys.readouterr().out
    for target, message in [
        ("MultiHead", "expected MODULE:CLASS"),
        ("foveal.nowhere:MultiHead", "foveal.nowhere: expected a module that can be imported"),
        (f"{tmp_path}/none.py:Mine", "expected a Python file"),
        (f"{file}:Yours", "has no 'Yours'; expected one of its classes or functions: Mine, MultiheadAttention"),
        (f"{file}:NUMBER", "expected a class, a module or a function, got int"),
    ]:
        with pytest.raises(FovealError, match=re.escape(message)):
            ran(target)
    with pytest.raises(FovealError, match="--set: expected name=value"):
        ran("torch.nn:MultiheadAttention", "--set", "24")
