"""Weights carried over, both ways: between our Transformer and torch.nn.Transformer, and between it and Marian in transformers.

    W_qkv = [W_q; W_k; W_v];   Marian's channel c = ours π(c),   π = (0, 2, 4, …, 1, 3, 5, …)

The same numbers in other places, so that the logits are the same to rounding.

torch.nn.Transformer has neither words nor positions: beside its own names the weights have `source.weight`, and `target.weight` and
`generator.weight` (and `generator.bias`) unless they are tied to it. It computes what ours does between √C·E + PE and the logits. It
always ends both stacks with a LayerNorm, as pre-norm needs and the paper's post-norm does not have: for norm="post" build it with
`custom_encoder=nn.TransformerEncoder(layer, layers, norm=None)` and `custom_decoder=nn.TransformerDecoder(layer, layers, norm=None)`.

Marian's positions are ours in another order, first all sines, then all cosines. Everything between the words and the logits treats
channels alike, so the model's channels are put into that order instead, and it needs no positions of a second kind. Marian begins a
target with the mark `pad`, and has a bias on its logits (output_bias).
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from foveal.errors import FovealError, expect, shown
from foveal.models.transformer import Transformer, TransformerConfig

Weights = dict[str, Tensor]

# Parts of a block: ours, torch's, Marian's.
ENCODER = (
    ("attention.layer", "self_attn", "self_attn"),
    ("attention.norm", "norm1", "self_attn_layer_norm"),
    ("feed_forward.layer.inner", "linear1", "fc1"),
    ("feed_forward.layer.outer", "linear2", "fc2"),
    ("feed_forward.norm", "norm2", "final_layer_norm"),
)
DECODER = (
    ("self_attention.layer", "self_attn", "self_attn"),
    ("self_attention.norm", "norm1", "self_attn_layer_norm"),
    ("cross_attention.layer", "multihead_attn", "encoder_attn"),
    ("cross_attention.norm", "norm2", "encoder_attn_layer_norm"),
    ("feed_forward.layer.inner", "linear1", "fc1"),
    ("feed_forward.layer.outer", "linear2", "fc2"),
    ("feed_forward.norm", "norm3", "final_layer_norm"),
)
TORCH, MARIAN = 1, 2  # their columns


def to_torch(model: Transformer) -> Weights:
    """The weights under the names of torch.nn.Transformer, and of the words' tables beside it."""
    config = _ours(model)
    _expect_torch(config)
    own = _apart(model.state_dict())
    theirs: Weights = {}
    for ours, name, kind in _places(config, TORCH):
        for part in ("weight", "bias"):
            if kind == "attention":
                theirs[f"{name}.in_proj_{part}"] = torch.cat([own[f"{ours}.{letter}.{part}"] for letter in "qkv"])
                theirs[f"{name}.out_proj.{part}"] = own[f"{ours}.out.{part}"]
            else:
                theirs[f"{name}.{part}"] = own[f"{ours}.{part}"]
    tables = _tables(config, "source.weight", "target.weight", "generator.weight", "generator.bias")
    return theirs | {name: own[ours] for ours, name in tables.items()}


def from_torch(weights: Mapping[str, Tensor], config: TransformerConfig) -> Transformer:
    """Our model, in evaluation mode, with the weights of a torch.nn.Transformer and of its words. config: what weights do not tell."""
    _expect_torch(config)
    theirs, own = dict(weights), dict[str, Tensor]()
    ends = [name for name in theirs if name.startswith(("encoder.norm.", "decoder.norm."))]
    if ends and config.norm != "pre":
        raise FovealError(
            f"the weights: expected no LayerNorm after the stacks with norm={config.norm!r}, got {ends[0]}; "
            "torch.nn.Transformer adds one unless its encoder and decoder are built with norm=None"
        )
    for ours, name, kind in _places(config, TORCH):
        for part in ("weight", "bias"):
            if kind == "attention":
                letters = _taken(theirs, f"{name}.in_proj_{part}").chunk(3)
                own |= {f"{ours}.{letter}.{part}": tensor for letter, tensor in zip("qkv", letters, strict=True)}
                own[f"{ours}.out.{part}"] = _taken(theirs, f"{name}.out_proj.{part}")
            else:
                own[f"{ours}.{part}"] = _taken(theirs, f"{name}.{part}")
    for ours, name in _tables(config, "source.weight", "target.weight", "generator.weight", "generator.bias").items():
        own[ours] = _taken(theirs, name)
    tied = {"target.weight": ("all",), "generator.weight": ("all", "output")}
    for name, kinds in tied.items():  # a tied table may stand there again
        if config.tied in kinds and name in theirs:
            table = "tables.target.weight" if name == "generator.weight" and config.tied == "output" else "tables.source.weight"
            expect(torch.equal(theirs.pop(name), own[table]), f"the weights' {name}", f"a table tied to {table}", "another")
    return _built(config, own, theirs)


def to_marian(model: Transformer) -> tuple[dict[str, Any], Weights]:
    """The settings (config.json) and the weights of transformers' MarianMTModel."""
    config = _ours(model)
    for name, wanted in (("norm", "post"), ("position", "sinusoidal"), ("residual", True)):
        expect(getattr(config, name) == wanted, f"the model's {name}", f"{wanted!r}, as Marian has it", repr(getattr(config, name)))
    expect(config.head_width in (None, config.width // config.heads), "the model's head_width", "width / heads", config.head_width)
    own = _apart(model.state_dict())
    order = _order(config.width)
    theirs: Weights = {}
    for ours, name, kind in _places(config, MARIAN):
        if kind == "attention":
            for letter, other in zip(("q", "k", "v", "out"), ("q_proj", "k_proj", "v_proj", "out_proj"), strict=True):
                theirs |= _moved(own, f"{ours}.{letter}", f"{name}.{other}", "rows" if letter == "out" else "columns", order)
        else:
            theirs |= _moved(own, ours, name, kind, order)
    for ours, name in _marian_tables(config).items():
        theirs[name] = own[ours][:, order]
    bias = own.get("tables.bias")
    words = config.target_words
    theirs["final_logits_bias"] = own["tables.source.weight"].new_zeros(1, words) if bias is None else bias[None]
    return _marian_settings(config), {name: tensor.contiguous() for name, tensor in theirs.items()}


def from_marian(settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Transformer:
    """Our model, in evaluation mode, from the settings (config.json) and the weights of a MarianMTModel."""
    config = _from_marian_settings(settings)
    # Positions are computed; tables that are tied may stand in a file several times.
    theirs = {name: tensor for name, tensor in weights.items() if not name.endswith("embed_positions.weight")}
    order = torch.argsort(_order(config.width))
    own: Weights = {}
    for ours, name, kind in _places(config, MARIAN):
        if kind == "attention":
            for letter, other in zip(("q", "k", "v", "out"), ("q_proj", "k_proj", "v_proj", "out_proj"), strict=True):
                own |= _moved(theirs, f"{name}.{other}", f"{ours}.{letter}", "rows" if letter == "out" else "columns", order)
        else:
            own |= _moved(theirs, name, ours, kind, order)
    for ours, place in _marian_tables(config).items():
        others = {"tables.source.weight": "model.encoder.embed_tokens.weight", "tables.target.weight": "model.decoder.embed_tokens.weight"}
        found = next((name for name in (place, others.get(ours, place), "model.shared.weight") if name in theirs), place)
        own[ours] = _get(theirs, found)[:, order]
    bias = theirs.get("final_logits_bias")
    own["tables.bias"] = own["tables.source.weight"].new_zeros(config.target_words) if bias is None else bias[0]
    return _built(config, own, {})


def _moved(weights: Mapping[str, Tensor], name: str, other: str, kind: str, order: Tensor) -> Weights:
    """A layer under another name, with the model's channels in another order: they are its rows, its columns, or all it has (a norm)."""
    weight, bias = _get(weights, f"{name}.weight"), _get(weights, f"{name}.bias")
    if kind == "columns":
        return {f"{other}.weight": weight[:, order], f"{other}.bias": bias}
    return {f"{other}.weight": weight[order], f"{other}.bias": bias[order]}


def _order(width: int) -> Tensor:
    """π: which of our channels each of Marian's is."""
    return torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))


def _places(config: TransformerConfig, whose: int) -> list[tuple[str, str, str]]:
    """(our name, their name, where the model's channels are) of every layer."""
    kinds = {"layer": "attention", "inner": "columns", "outer": "rows", "norm": "rows"}
    prefix = "model." if whose == MARIAN else ""
    found = []
    for stack, parts, count in (("encoder", ENCODER, config.layers), ("decoder", DECODER, config.decoder_layers)):
        for number in range(count):
            for part in parts:
                kind = kinds[part[0].rpartition(".")[2]]
                if config.norm != "none" or not part[0].endswith("norm"):
                    found.append((f"{stack}.{number}.{part[0]}", f"{prefix}{stack}.layers.{number}.{part[whose]}", kind))
        if config.norm == "pre":
            found.append((f"{stack}_norm", f"{prefix}{stack}.norm", "rows"))
    return found


def _tables(config: TransformerConfig, source: str, target: str, output: str, bias: str) -> dict[str, str]:
    """Our names of the words' tables → these, without those that are tied to another."""
    named = {"tables.source.weight": source}
    if config.tied != "all":
        named["tables.target.weight"] = target
    if config.tied == "none":
        named["tables.out.weight"] = output
    return named | ({"tables.bias": bias} if config.output_bias else {})


def _marian_tables(config: TransformerConfig) -> dict[str, str]:
    source = "model.shared.weight" if config.tied == "all" else "model.encoder.embed_tokens.weight"
    named = _tables(config, source, "model.decoder.embed_tokens.weight", "lm_head.weight", "")
    named.pop("tables.bias", None)
    return named


def _marian_settings(config: TransformerConfig) -> dict[str, Any]:
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": config.source_words,
        "decoder_vocab_size": config.target_words,
        "d_model": config.width,
        "encoder_layers": config.layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.hidden,
        "decoder_ffn_dim": config.hidden,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.hidden_dropout,
        "activation_function": config.activation,
        "max_position_embeddings": config.longest,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": config.tied == "all",
        "tie_word_embeddings": config.tied != "none",
        "pad_token_id": config.pad,
        "bos_token_id": config.begin,
        "eos_token_id": config.end,
        "forced_eos_token_id": config.end,
        "unk_token_id": config.unknown,
        "decoder_start_token_id": config.begin,
    }


def _from_marian_settings(settings: Mapping[str, Any]) -> TransformerConfig:
    missing = sorted({"model_type", "d_model", "vocab_size"} - set(settings))
    expect(not missing, "the settings of Marian", "a config.json of transformers", f"one without {', '.join(missing)}")
    expect(settings["model_type"] == "marian", "the settings", "those of a 'marian'", f"those of a {shown(settings['model_type'])}")
    expect(settings.get("scale_embedding", False) is True, "the settings' scale_embedding", "true", settings.get("scale_embedding"))
    for name in ("attention_heads", "ffn_dim"):
        one, other = settings.get(f"encoder_{name}"), settings.get(f"decoder_{name}")
        expect(one == other, f"the settings' encoder_{name}", f"{other}, as the decoder's", one)
    shared, tied = settings.get("share_encoder_decoder_embeddings", True), settings.get("tie_word_embeddings", True)
    activation = settings.get("activation_function", "gelu")
    try:
        return TransformerConfig(
            source_words=settings["vocab_size"],
            target_words=settings.get("decoder_vocab_size") or settings["vocab_size"],
            width=settings["d_model"],
            hidden=settings["encoder_ffn_dim"],
            heads=settings["encoder_attention_heads"],
            layers=settings["encoder_layers"],
            decoder_layers=settings["decoder_layers"],
            dropout=settings.get("dropout", 0.1),
            attention_dropout=settings.get("attention_dropout", 0.0),
            hidden_dropout=settings.get("activation_dropout", 0.0),
            activation="swish" if activation == "silu" else activation,
            longest=settings.get("max_position_embeddings", 1024),
            tied="none" if not tied else "all" if shared else "output",
            output_bias=True,
            pad=settings["pad_token_id"],
            begin=settings["decoder_start_token_id"],
            end=settings["eos_token_id"],
            unknown=settings.get("unk_token_id", 1),  # the models of OPUS have it there, and their settings do not say so
        )
    except KeyError as error:
        raise FovealError(f"the settings of Marian: expected {error.args[0]}, got none") from None


def _expect_torch(config: TransformerConfig) -> None:
    """Raise a FovealError unless torch.nn.Transformer can be such a model."""
    norms = config.norm in ("post", "pre")
    expect(norms and config.residual, "the model's norm", "'post' or 'pre' with residual=True, as torch has it", repr(config.norm))
    expect(config.head_width in (None, config.width // config.heads), "the model's head_width", "width / heads", config.head_width)
    inside = config.position in ("relative", "rotary")
    expect(not inside, "the model's position", "one that is added to the words", repr(config.position), "torch has none in attention")
    learned = config.position == "learned"
    expect(not learned, "the model's position", "'sinusoidal' or 'none'", "'learned'", "its tables have no name in torch")


def _ours(model: object) -> TransformerConfig:
    expect(isinstance(model, Transformer), "the model", "a Transformer of foveal's", type(model).__name__)
    assert isinstance(model, Transformer)
    return model.config


def _apart(state: Mapping[str, Tensor]) -> Weights:
    """Our weights with q, k and v each under a name of its own."""
    apart: Weights = {}
    for name, tensor in state.items():
        layer, _, part = name.rpartition(".")
        prefix, _, letters = layer.rpartition(".")
        if letters in ("qkv", "kv"):
            split = zip(letters, tensor.detach().chunk(len(letters)), strict=True)
            apart |= {f"{prefix}.{letter}.{part}": each for letter, each in split}
        else:
            apart[name] = tensor.detach()
    return apart


def _built(config: TransformerConfig, own: Weights, left: Mapping[str, Tensor]) -> Transformer:
    """The model with these weights, q, k and v joined as its layers have them."""
    expect(not left, "the weights", "those of the model and no others", f"{', '.join(sorted(left)[:4])} besides")
    with torch.device("meta"):
        model = Transformer(config)
    joined: Weights = {}
    for name, place in model.state_dict().items():
        layer, _, part = name.rpartition(".")
        prefix, _, letters = layer.rpartition(".")
        whole = torch.cat([own[f"{prefix}.{one}.{part}"] for one in letters]) if letters in ("qkv", "kv") else own[name].clone()
        expect(whole.shape == place.shape, f"the weights of {name}", tuple(place.shape), tuple(whole.shape))
        joined[name] = whole.contiguous()
    model.load_state_dict(joined, assign=True)
    return model.requires_grad_(True).eval()


def _get(weights: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in weights:
        raise FovealError(f"the weights: expected {name}, got none of that name")
    return weights[name]


def _taken(weights: Weights, name: str) -> Tensor:
    tensor = _get(weights, name)
    del weights[name]
    return tensor
