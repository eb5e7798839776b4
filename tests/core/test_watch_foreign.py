import math
import threading
import warnings
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.functional import scaled_dot_product_attention as dot_product

from foveal import attend, mask, watch
from foveal.core.watch import Seen, Statistics
from foveal.errors import FovealError

B, H, N, M, D = 2, 6, 5, 7, 3


def tensor(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def booleans(*shape: int) -> Tensor:
    kept = tensor(*shape) > 0
    kept[..., 0] = True
    return kept


def softmaxed(q: Tensor, k: Tensor, extra: Tensor | float = 0.0, scale: float | None = None) -> Tensor:
    """The definition, by broadcasting."""
    return ((q @ k.transpose(-1, -2)) * (1 / math.sqrt(D) if scale is None else scale) + extra).softmax(-1)


def additive(kept: Tensor) -> Tensor:
    return torch.zeros(kept.shape, dtype=torch.float64).masked_fill(~kept, -torch.inf)


def below(queries: int, keys: int, shift: int = 0) -> Tensor:
    return additive(torch.arange(keys) <= torch.arange(queries)[:, None] + shift)


def split(x: Tensor) -> Tensor:
    return x.reshape(2, 2, 3, -1, D)


q, k, few = tensor(B, H, N, D), tensor(B, H, M, D), tensor(B, 2, M, D)
kept, bias, padding = booleans(N, M), tensor(B, H, N, M), booleans(B, 1, 1, M)
CALLS = {  # arguments of torch's dot product, and the weights by definition
    "plain": ((q, k, k), {}, softmaxed(q, k)),
    "scale": ((q, k, k), {"scale": 0.3}, softmaxed(q, k, scale=0.3)),
    "boolean mask": ((q, k, k), {"attn_mask": kept}, softmaxed(q, k, additive(kept))),
    "padding": ((q, k, k, padding), {}, softmaxed(q, k, additive(padding))),
    "floating mask": ((q, k, k, bias), {}, softmaxed(q, k, bias)),
    "floating mask of one row": ((q, k, k, bias[:, :1, :1]), {}, softmaxed(q, k, bias[:, :1, :1])),
    "causal, by place": ((q, k, k, None, 0.0, True), {}, softmaxed(q, k, below(N, M))),
    "causal": ((k, q, q), {"is_causal": True}, softmaxed(k, q, below(M, N))),
    "causal and a mask": ((q, k, k, kept), {"is_causal": True}, softmaxed(q, k, additive(kept) + below(N, M))),
    "torch's upper causal": ((q, k, k, causal_upper_left(N, M)), {}, softmaxed(q, k, below(N, M))),
    "torch's lower causal": ((q, k, k, causal_lower_right(N, M)), {}, softmaxed(q, k, below(N, M, M - N))),
    "groups": ((q, few, few), {"enable_gqa": True}, softmaxed(q, few.repeat_interleave(3, 1))),
    "keywords": ((), {"query": q, "key": k, "value": k}, softmaxed(q, k)),
    "dropout": ((q, k, k), {"dropout_p": 0.5}, softmaxed(q, k)),
    "one head of keys": ((q, k[:, :1], k[:, :1]), {}, softmaxed(q, k[:, :1])),
    "one head of queries": ((q[:, :1], k, k), {}, softmaxed(q[:, :1], k)),
    "one sample of keys": ((q, k[:1], k[:1]), {}, softmaxed(q, k[:1])),
    "3 axes": ((q[:, 0], k[:, 0], k[:, 0], bias[:, 0]), {}, softmaxed(q[:, 0], k[:, 0], bias[:, 0])[:, None]),
    "2 axes": ((q[0, 0], k[0, 0], k[0, 0], kept), {}, softmaxed(q[0, 0], k[0, 0], additive(kept))[None, None]),
    "5 axes": ((q[None], k[None], k[None], padding[None]), {}, softmaxed(q, k, additive(padding))),
    "5 axes and a mask by sample": (
        (split(q), split(k), split(k), padding[None]),
        {},
        softmaxed(split(q), split(k), additive(padding[None])).reshape(4, 3, N, M),
    ),
    "5 axes and a flat mask": ((q[:, None], k[:, None], k[:, None], kept), {}, softmaxed(q, k, additive(kept))),
}


@pytest.mark.parametrize("case", CALLS)
def test_dot_product(case: str) -> None:
    arguments, options, expected = CALLS[case]
    torch.manual_seed(0)
    plain, state = functional.scaled_dot_product_attention(*arguments, **options), torch.get_rng_state()
    for call in (functional.scaled_dot_product_attention, dot_product):
        torch.manual_seed(0)
        with watch() as seen, watch(rows=[3, 1], keep=Statistics(chunk=1)) as described:
            y = call(*arguments, **options)
        assert torch.equal(y, plain)
        assert torch.equal(torch.get_rng_state(), state)
        assert list(seen) == ["scaled_dot_product_attention"]
        record = seen["scaled_dot_product_attention"]
        assert record.shape == expected.shape
        torch.testing.assert_close(record.weights, expected, atol=1e-9, rtol=0)
        torch.testing.assert_close(described["scaled_dot_product_attention"].entropy, record.entropy[:, :, [3, 1]])


def test_a_row_that_sees_nothing_has_no_weights() -> None:
    nothing = kept.clone()
    nothing[2] = False
    with watch() as seen:
        dot_product(q, k, k, nothing)
        dot_product(q, k, k, additive(nothing))
    for record in seen.values():
        assert (record.weights[:, :, 2] == 0).all()
        assert torch.isfinite(record.weights).all()


def test_autocast_with_two_dtypes() -> None:
    rounded = q.bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16), watch() as seen:
        dot_product(rounded, k.float(), k.float())
    expected = softmaxed(rounded.double(), k).float()
    torch.testing.assert_close(seen["scaled_dot_product_attention"].weights, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kernel", ["auto", "blocks"])
def test_own_calls_count_once(kernel: str) -> None:
    with (
        torch.device("cpu"),
        watch() as outer,
        torch.device("cpu"),
        watch() as inner,
        torch.device("cpu"),
    ):  # modes between modes
        attend(q, k, k, mask=mask.causal, kernel=kernel)
        attend(q[:, :, :1], few, few)
        dot_product(q, k, k)
    for seen in (outer, inner):
        assert list(seen) == ["attend", "attend#2", "scaled_dot_product_attention"]


MULTI_HEAD = {
    "self": ({}, {}),
    "masked": ({}, {"attn_mask": ~booleans(N, N)}),
    "masked by sample and head": ({}, {"attn_mask": tensor(B * 2, N, N).float()}),
    "padded": ({}, {"key_padding_mask": ~booleans(B, N)}),
    "both": ({}, {"attn_mask": ~booleans(N, N), "key_padding_mask": ~booleans(B, N)}),
    "causal": ({}, {"attn_mask": below(N, N).float(), "is_causal": True}),
    "sequence first": ({"batch_first": False}, {}),
    "one more key": ({"add_bias_kv": True}, {"key_padding_mask": ~booleans(B, N)}),
    "a zero key": ({"add_zero_attn": True}, {"attn_mask": ~booleans(N, N)}),
    "cross": ({"kdim": 5, "vdim": 3}, {}),
    "training": ({"dropout": 0.5}, {}),
}


@pytest.mark.parametrize("case", MULTI_HEAD)
@pytest.mark.parametrize("how", [{"need_weights": False}, {"need_weights": True}, {"average_attn_weights": False}])
def test_multi_head_attention(case: str, how: dict[str, bool]) -> None:
    options, inputs = MULTI_HEAD[case]
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, **{"batch_first": True, **options})
    layer.train(case == "training")
    nn.init.normal_(layer.in_proj_bias)
    x = tensor(B, N, 8).float()
    tokens = (x, tensor(B, M, 5).float(), tensor(B, M, 3).float()) if case == "cross" else (x, x, x)
    torch.manual_seed(1)
    y, average = layer(*tokens, **inputs, **how)
    state = torch.get_rng_state()
    torch.manual_seed(1)
    with watch(layer) as seen, watch(layer, keep=Statistics(chunk=2)) as described:
        y_seen, average_seen = layer(*tokens, **inputs, **how)
    assert torch.equal(y_seen, y)
    assert torch.equal(torch.get_rng_state(), state)
    assert (average is None and average_seen is None) or torch.equal(average, average_seen)
    _, expected = layer.eval()(*tokens, **inputs, average_attn_weights=False)
    assert list(seen) == list(described) == ["MultiheadAttention"]
    record = seen["MultiheadAttention"]
    assert (record.module, record.kernel) == ("MultiheadAttention", "multi_head_attention_forward")
    torch.testing.assert_close(record.weights, expected)
    torch.testing.assert_close(described["MultiheadAttention"].largest, expected.amax(-1))


def test_multi_head_attention_without_a_batch() -> None:
    layer, x = nn.MultiheadAttention(8, 2), tensor(N, 8).float()
    with watch(layer) as seen:
        _, expected = layer(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(seen["MultiheadAttention"].weights[0], expected)


def test_a_wrong_causal_hint_is_seen_as_torch_takes_it() -> None:
    layer, x, hidden = nn.MultiheadAttention(8, 2), tensor(N, B, 8).float(), ~booleans(N, N)
    with watch(layer) as seen:
        _, masked = layer(x, x, x, attn_mask=hidden, is_causal=True, average_attn_weights=False)  # the mask counts
        layer(x, x, x, attn_mask=hidden, is_causal=True, need_weights=False)  # the hint counts
    _, causal = layer(x, x, x, attn_mask=below(N, N) < 0, average_attn_weights=False)
    torch.testing.assert_close(seen["MultiheadAttention"].weights, masked)
    torch.testing.assert_close(seen["MultiheadAttention#2"].weights, causal)


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_torchs_encoder_leaves_its_shortcut() -> None:
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 13, batch_first=True), 2).eval()
    x, hidden = tensor(B, N, 8).float(), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    plain = encoder(x, src_key_padding_mask=hidden)
    with watch(encoder) as seen:
        y = encoder(x, src_key_padding_mask=hidden)
    torch.testing.assert_close(y[~hidden], plain[~hidden])
    assert list(seen) == ["layers.0.self_attn", "layers.1.self_attn"]
    assert seen.unseen == []
    _, expected = encoder.layers[0].self_attn(x, x, x, key_padding_mask=hidden, average_attn_weights=False)
    torch.testing.assert_close(seen["layers.0.self_attn"].weights, expected)


def test_torchs_decoder() -> None:
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 13, batch_first=True), 1)
    ahead = nn.Transformer.generate_square_subsequent_mask(N)
    with watch(decoder) as seen:
        decoder(tensor(B, N, 8).float(), tensor(B, M, 8).float(), tgt_mask=ahead, tgt_is_causal=True)
    assert {name: record.shape for name, record in seen.items()} == {
        "layers.0.self_attn": (B, 2, N, N),
        "layers.0.multihead_attn": (B, 2, N, M),
    }
    assert (seen["layers.0.self_attn"].weights.triu(1) == 0).all()


SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "intermediate_size": 32, "initializer_range": 0.5}


def pretrained(name: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """A tiny model of transformers, and an input for it."""
    import transformers as hub

    torch.manual_seed(0)
    words = {"input_ids": torch.randint(0, 31, (2, 7)), "attention_mask": torch.tensor([[1] * 7, [1] * 5 + [0] * 2])}
    tokens = {"vocab_size": 31, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    if name == "bert":
        return hub.BertModel(hub.BertConfig(**tokens, **SIZES, num_attention_heads=3)), words
    if name == "llama":
        return hub.LlamaModel(hub.LlamaConfig(**tokens, **SIZES, num_attention_heads=6, num_key_value_heads=2)), words
    if name == "gpt2":
        sizes = {"n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 13, "initializer_range": 0.5}
        return hub.GPT2Model(hub.GPT2Config(**tokens, **sizes)), words
    config = hub.ViTConfig(image_size=12, patch_size=4, **SIZES, num_attention_heads=3)
    return hub.ViTModel(config), {"pixel_values": torch.randn(2, 3, 12, 12)}


@torch.no_grad()
@pytest.mark.parametrize("name", ["bert", "vit", "llama", "gpt2"])
def test_transformers(name: str) -> None:
    model, inputs = pretrained(name)
    model.eval().set_attn_implementation("sdpa")
    plain = model(**inputs).last_hidden_state
    with watch(model) as seen, watch(model, keep=Statistics(chunk=3)) as described:
        y = model(**inputs).last_hidden_state
    assert torch.equal(y, plain)
    assert seen.unseen == []
    model.set_attn_implementation("eager")
    witness = model(**inputs, output_attentions=True).attentions
    assert len(seen) == len(described) == len(witness) == 2
    for record, brief, expected in zip(seen.values(), described.values(), witness, strict=True):
        torch.testing.assert_close(record.weights, expected)
        torch.testing.assert_close(brief.largest, expected.amax(-1))
    names = list(seen)
    with (
        pytest.raises(FovealError, match=rf'saw nothing: {", ".join(names)} ran.*attn_implementation="sdpa"'),
        watch(model) as seen,
    ):
        model(**inputs)


@torch.no_grad()
def test_x_transformers() -> None:
    from x_transformers import Decoder, TransformerWrapper

    def build(flash: bool) -> nn.Module:
        torch.manual_seed(0)
        layers = Decoder(dim=12, depth=2, heads=3, attn_dim_head=8, attn_flash=flash, rotary_pos_emb=True)
        return TransformerWrapper(num_tokens=31, max_seq_len=13, attn_layers=layers).eval()

    words = torch.randint(0, 31, (2, 7), generator=torch.Generator().manual_seed(0))
    fused, plain = build(flash=True), build(flash=False)
    expected = fused(words)
    with watch(fused) as seen:
        y = fused(words)
    assert torch.equal(y, expected)
    _, witness = plain(words, return_attn=True)
    assert len(seen) == len(witness) == 2
    assert all(name.endswith(".attend") for name in seen)
    for record, weights in zip(seen.values(), witness, strict=True):
        torch.testing.assert_close(record.weights, weights)
    with pytest.raises(FovealError, match=r"attn_layers\.layers\.0\.1, attn_layers\.layers\.2\.1 ran"), watch(plain):
        plain(words)


class DotAttention(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x, x, x)


class Mixer(DotAttention):
    """The same, under a name that does not say it."""


class HandAttn(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.transpose(-1, -2)).softmax(-1) @ x


class AttentionHelper(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


class Whole(nn.Module):
    """An attention layer made of parts that also have it in their names."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.linear = nn.Linear(D, D).double()

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return self.linear(x)


class WholeAttention(Whole):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(functional.scaled_dot_product_attention(x, x, x))


def test_layers_that_hide_are_named() -> None:
    mixed = Whole(DotAttention(), HandAttn(), Whole(HandAttn()))
    with (
        pytest.warns(UserWarning, match=r"saw only a part: parts\.1, parts\.2\.parts\.0 ran") as warned,
        watch(mixed) as seen,
    ):
        mixed(q)
    assert warned[0].filename == __file__
    assert list(seen) == ["parts.0"]
    assert seen.unseen == ["parts.1", "parts.2.parts.0"]
    with watch(mixed, layers="parts.0") as seen:  # what was not asked for is not missed
        mixed(q)
    assert seen.unseen == []
    with (
        pytest.raises(FovealError, match=r"saw nothing of 'parts\.1': parts\.1 ran"),
        watch(mixed, layers=["parts.0", "parts.1"]),
    ):
        mixed(q)
    helped = Whole(WholeAttention(AttentionHelper()))
    with watch(helped) as seen:
        helped(q)
    assert list(seen) == ["parts.0"]
    assert seen.unseen == []


def test_foveals_own_layers_report_by_themselves() -> None:
    # has no weights to show
    gate = type("ChannelAttention", (AttentionHelper,), {"__module__": "foveal.vision.channel"})
    model = Whole(gate(), DotAttention())
    with watch(model) as seen:
        model(q)
    assert seen.unseen == []


@pytest.fixture
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.usefixtures("quiet")
def test_scripted_layers_are_named() -> None:
    scripted = torch.jit.script(Mixer())
    model = Whole(scripted)
    with pytest.raises(FovealError, match=r"saw nothing: parts\.0 ran.*before torch\.jit"), watch(model):
        model(q)
    model = Whole(scripted, torch.jit.script(AttentionHelper()), torch.jit.script(nn.ReLU()), DotAttention())
    with pytest.warns(UserWarning, match=r"parts\.0, parts\.1 ran"), watch(model) as seen:
        model(q)
    assert list(seen) == ["parts.3"]
    assert seen.unseen == ["parts.0", "parts.1"]
    traced = torch.jit.trace(Whole(nn.ReLU()), q)
    with pytest.raises(FovealError, match="no attention ran in Whole"), watch(traced):
        traced(q)
    traced = torch.jit.trace(Whole(DotAttention()), q)
    with pytest.raises(FovealError, match=r"saw nothing: parts\.0 ran"), watch(traced):
        traced(q)


def test_threads_of_data_parallel_are_named() -> None:
    class Threads(nn.DataParallel):
        """DataParallel, with the two devices that a test does not have."""

        def __init__(self, module: nn.Module) -> None:
            super().__init__(module)
            self.device_ids = [0, 1]

        def forward(self, x: Tensor) -> Tensor:
            thread = threading.Thread(target=self.module, args=(x,))
            thread.start()
            thread.join()
            return x

    model = Threads(Whole(DotAttention()))
    with pytest.raises(FovealError, match=r"saw nothing: Threads ran.*\.module inside DataParallel"), watch(model):
        model(q)
    alone = nn.DataParallel(Whole(DotAttention()))  # without a GPU it calls its module
    with watch(alone) as seen:
        alone(q)
    assert list(seen) == ["module.parts.0"]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_are_named() -> None:
    nested = torch.nested.nested_tensor([tensor(5, H, D), tensor(7, H, D)], layout=torch.jagged).transpose(1, 2)
    model = Whole(Mixer())
    model.linear = nn.Identity()
    with pytest.raises(FovealError, match=r"saw nothing: parts\.0 ran"), watch(model):
        model(nested)


def test_exported_graphs_are_seen() -> None:
    exported = torch.export.export(Whole(DotAttention()), (q,)).module()
    with watch(exported) as seen:
        exported(q)
    torch.testing.assert_close(next(iter(seen.values())).weights, softmaxed(q, q))


def test_seen_is_a_mapping() -> None:
    with watch() as seen:
        dot_product(q, k, k)
    assert isinstance(seen, Seen)
    assert dict(seen) == {"scaled_dot_product_attention": seen["scaled_dot_product_attention"]}
