import dataclasses
import json

import pytest
import torch
from safetensors.torch import load, save
from torch import nn
from transformers import MarianConfig, MarianMTModel

from foveal.errors import FovealError
from foveal.models.convert import from_torch, to_torch
from foveal.models.marian import from_marian, to_marian
from foveal.models.seq2seq import Seq2Seq, Seq2SeqConfig
from foveal.models.transformer import Transformer, TransformerConfig
from foveal.position.sinusoidal import sinusoid

SMALL = {
    "source_vocab": 29,
    "target_vocab": 29,
    "width": 12,
    "hidden": 17,
    "heads": 3,
    "layers": 2,
    "decoder_layers": 3,
    "max_length": 19,
}
SOURCE = torch.tensor([[5, 7, 11, 4, 9, 2, 0], [8, 6, 2, 0, 0, 0, 0], [13, 4, 22, 28, 2, 0, 0]])
TARGET = torch.tensor([[1, 5, 6, 7, 8], [1, 9, 4, 2, 0], [1, 22, 21, 20, 2]])
CLOSE = {torch.float32: 1e-5, torch.float64: 1e-10}
DTYPES = sorted(CLOSE, key=str)


def small(dtype=torch.float64, **changes):
    """Weights that are all different from 0, but no larger than after training:
    float32 must be able to hold the logits.
    """
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(**{**SMALL, **changes})).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def far(a, b):
    assert a.shape == b.shape
    return (a - b).abs().max().item()


# --- torch.nn.Transformer ---------------------------------------------------------------------------------------------


class Torchs(nn.Module):
    """torch's own Transformer with words and positions around it, as anybody would write it."""

    def __init__(self, config):
        super().__init__()
        pre, width = config.norm == "pre", config.width
        options = {"dropout": 0.0, "batch_first": True, "norm_first": pre, "activation": config.activation}
        sizes = width, config.heads, config.hidden
        ends = [nn.LayerNorm(width) if pre else None for _ in range(2)]
        encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(*sizes, **options), config.layers, ends[0], enable_nested_tensor=False
        )
        decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(*sizes, **options), config.decoder_layers, ends[1])
        self.net = nn.Transformer(width, config.heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
        self.source = nn.Embedding(config.source_vocab, width)
        self.target = nn.Embedding(config.target_vocab, width)
        self.generator = nn.Linear(width, config.target_vocab, bias=config.output_bias)

    def weights(self):
        return {name.removeprefix("net."): tensor for name, tensor in self.state_dict().items()}

    def take(self, weights):
        tables = ("source.", "target.", "generator.")
        full = {name if name.startswith(tables) else f"net.{name}": tensor for name, tensor in weights.items()}
        full.setdefault("target.weight", full["source.weight"])
        full.setdefault("generator.weight", full["target.weight"])
        self.load_state_dict(full)
        return self

    def forward(self, source, target):
        x, y = (
            table(words) * table.embedding_dim**0.5
            + sinusoid(torch.arange(words.shape[1]).to(table.weight), table.embedding_dim)
            for table, words in ((self.source, source), (self.target, target))
        )
        later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        hidden = self.net(x, y, tgt_mask=later, src_key_padding_mask=source == 0, memory_key_padding_mask=source == 0)
        return self.generator(hidden)


@torch.no_grad()
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("norm", "changes"), [("post", {}), ("pre", {"activation": "gelu", "output_bias": True})])
@pytest.mark.parametrize("tied", ["all", "output", "none"])
def test_to_torch_and_back(norm, changes, tied, dtype):
    model = small(dtype, norm=norm, tied=tied, **changes)
    weights = to_torch(model)
    other = Torchs(model.config).to(dtype).eval().take(weights)
    assert far(other(SOURCE, TARGET), model(SOURCE, TARGET)) < CLOSE[dtype]
    again = from_torch(weights, model.config)
    assert again.config == model.config
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in model.state_dict().items())
    # nothing is there twice
    assert set(load(save({name: tensor.contiguous() for name, tensor in weights.items()}))) == set(weights)


@torch.no_grad()
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_from_torch(norm, dtype):
    config = TransformerConfig(**SMALL, norm=norm, tied="none", output_bias=True)
    torch.manual_seed(1)
    theirs = Torchs(config).to(dtype).eval()
    for parameter in theirs.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    ours = from_torch(theirs.weights(), config)
    assert not ours.training
    assert all(weight.requires_grad for weight in ours.parameters())
    assert far(ours(SOURCE, TARGET), theirs(SOURCE, TARGET)) < CLOSE[dtype]


def test_a_tied_table_may_stand_there_again_but_only_the_same():
    model = small()
    weights = to_torch(model)
    twice = weights | {"target.weight": weights["source.weight"], "generator.weight": weights["source.weight"]}
    assert torch.equal(from_torch(twice, model.config).tables.source.weight, model.tables.source.weight)
    with pytest.raises(
        FovealError,
        match=r"the weights' generator\.weight: expected a table tied to tables\.source\.weight, got another",
    ):
        from_torch(weights | {"generator.weight": weights["source.weight"] + 1}, model.config)


def test_what_torch_adds_to_post_norm_is_named():
    config = TransformerConfig(**SMALL)
    theirs = nn.Transformer(12, 4, 2, 3, 17, batch_first=True)
    with pytest.raises(FovealError) as caught:
        from_torch(theirs.state_dict(), config)
    assert (
        "expected no LayerNorm after the stacks with norm='post', got encoder.norm.weight; torch.nn.Transformer adds "
        "one" in str(caught.value)
    )


# --- Marian -----------------------------------------------------------------------------------------------------------


def marian(dtype=torch.float64, **changes):
    """A MarianMTModel as OPUS's are: the last id is pad and begins the target, swish, scaled tables."""
    torch.manual_seed(2)
    settings = {
        "vocab_size": 29,
        "d_model": 12,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "encoder_attention_heads": 3,
        "decoder_attention_heads": 3,
        "encoder_ffn_dim": 17,
        "decoder_ffn_dim": 17,
        "max_position_embeddings": 19,
        "activation_function": "swish",
        "scale_embedding": True,
        "pad_token_id": 28,
        "eos_token_id": 0,
        "decoder_start_token_id": 28,
        "init_std": 0.3,
        **changes,
    }
    model = MarianMTModel(MarianConfig(**settings)).to(dtype).eval()
    with torch.no_grad():
        model.final_logits_bias.normal_()
        for name, parameter in model.named_parameters():
            if name.endswith(".bias") or "norm" in name:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return exact(model)


def exact(model):
    """Marian's table of positions is rounded to float32; here it is not, so that float64 can be compared."""
    for side in (model.model.encoder, model.model.decoder):
        weight = side.embed_positions.weight
        with torch.no_grad():
            clocks = sinusoid(torch.arange(len(weight)).to(weight.dtype), weight.shape[1])
            ours = torch.cat((clocks[:, 0::2], clocks[:, 1::2]), 1)
            assert far(ours, weight) < 1e-6
            weight.copy_(ours)
    return model


def logits_of(model, source, target):
    pad = model.config.pad_token_id
    with torch.no_grad():
        return model(input_ids=source, attention_mask=(source != pad).long(), decoder_input_ids=target).logits


@torch.no_grad()
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation_function": "relu"},
        {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 31},
        {"tie_word_embeddings": False},
    ],
    ids=str,
)
def test_from_marian_and_back(changes, dtype):
    theirs = marian(dtype, **changes)
    ours = from_marian(theirs.config.to_dict(), theirs.state_dict())
    source, target = torch.where(SOURCE == 0, 28, SOURCE.clamp(max=27)), torch.where(TARGET == 1, 28, TARGET)
    logits = logits_of(theirs, source, target)
    assert far(ours(source, target), logits) < CLOSE[dtype]
    assert (ours.config.pad, ours.config.begin, ours.config.end) == (28, 28, 0)
    settings, weights = to_marian(ours)
    assert far(logits_of(loaded(settings, weights, dtype), source, target), logits) < 1e-5


def loaded(settings, weights, dtype):
    model = MarianMTModel(MarianConfig(**settings)).to(dtype).eval()
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert all(
        "embed_positions" in name or "embed_tokens" in name or name in ("lm_head.weight", "model.shared.weight")
        for name in missing
    )
    return exact(model)


@torch.no_grad()
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "changes",
    [{}, {"tied": "output", "target_vocab": 31}, {"tied": "none", "activation": "gelu", "output_bias": True}],
    ids=str,
)
def test_to_marian_and_back(changes, dtype):
    model = small(dtype, **changes)
    settings, weights = to_marian(model)
    theirs = loaded(settings, weights, dtype)
    assert far(logits_of(theirs, SOURCE, TARGET), model(SOURCE, TARGET)) < CLOSE[dtype]
    again = from_marian(settings, weights)
    assert dataclasses.replace(again.config, output_bias=model.config.output_bias) == model.config
    assert far(again(SOURCE, TARGET), model(SOURCE, TARGET)) == 0


@torch.no_grad()
def test_transformers_opens_what_we_write(tmp_path):
    model = small(torch.float32)
    settings, weights = to_marian(model)
    (tmp_path / "config.json").write_text(json.dumps(settings))
    (tmp_path / "model.safetensors").write_bytes(save(weights, {"format": "pt"}))
    theirs = MarianMTModel.from_pretrained(tmp_path).eval()
    assert far(logits_of(theirs, SOURCE, TARGET), model(SOURCE, TARGET)) < 1e-5
    theirs.save_pretrained(tmp_path / "again")
    again = from_marian(
        json.loads((tmp_path / "again" / "config.json").read_text()),
        load((tmp_path / "again" / "model.safetensors").read_bytes()),
    )
    assert far(again(SOURCE, TARGET), model(SOURCE, TARGET)) < 1e-6


# --- errors -----------------------------------------------------------------------------------------------------------

TORCHS = to_torch(small())
BAD = {
    "a recurrent one": (
        lambda: to_torch(Seq2Seq(Seq2SeqConfig(source_vocab=7, target_vocab=7))),
        "expected a Transformer of foveal's, got Seq2Seq",
    ),
    "rotary": (
        lambda: to_torch(small(position="rotary")),
        "the model's position: expected one that is added to the embeddings, got 'rotary'",
    ),
    "learned": (
        lambda: to_torch(small(position="learned")),
        "the model's position: expected 'sinusoidal' or 'none', got 'learned'",
    ),
    "no norm": (lambda: to_torch(small(norm="none")), "the model's norm: expected 'post' or 'pre' with residual=True"),
    "wide heads": (lambda: to_torch(small(head_width=5)), "the model's head_width: expected width / heads, got 5"),
    "pre for Marian": (
        lambda: to_marian(small(norm="pre")),
        "the model's norm: expected 'post', as Marian has it, got 'pre'",
    ),
    "a missing weight": (
        lambda: from_torch(
            {name: tensor for name, tensor in TORCHS.items() if "linear2.bias" not in name}, small().config
        ),
        "the weights: expected encoder.layers.0.linear2.bias, got none of that name",
    ),
    "another weight": (
        lambda: from_torch(TORCHS | {"more": torch.ones(1)}, small().config),
        "those of the model and no others, got more besides",
    ),
    "another size": (
        lambda: from_torch(TORCHS | {"source.weight": torch.ones(30, 12)}, small().config),
        "the weights of tables.source.weight: expected (29, 12), got (30, 12)",
    ),
    "another kind": (
        lambda: from_marian({"model_type": "bart", "d_model": 1, "vocab_size": 1}, {}),
        "that of a 'marian', got that of a 'bart'",
    ),
    "no settings": (
        lambda: from_marian({}, {}),
        "a config.json of transformers, got one without d_model, model_type, vocab_size",
    ),
    "not scaled": (
        lambda: from_marian(to_marian(small())[0] | {"scale_embedding": False}, {}),
        "scale_embedding: expected true, got False",
    ),
    "no weights": (
        lambda: from_marian(to_marian(small())[0], {}),
        "the weights: expected model.encoder.layers.0.self_attn.q_proj.weight",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_carried_over_is_named(name):
    call, message = BAD[name]
    with pytest.raises(FovealError) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
