"""Weights carried over between our Transformer and Marian in transformers (MarianMTModel), both ways.

    Marian's channel c = ours π(c),   π = (0, 2, 4, …, 1, 3, 5, …)

Marian's positions are ours in another order, first all sines, then all cosines. Everything between the embeddings and
the logits treats channels alike, so the model's channels are put into that order instead, and it needs no positions of
a second kind. transformers keeps them in a table that it computes in float64; ours are computed in float32, which at
the thousandth token is 1e-5 apart. Marian begins a target with the mark `pad`, has a bias on its logits (output_bias),
and its feed-forward networks are of swish (SiLU).

Paper: Marcin Junczys-Dowmunt, Roman Grundkiewicz, Tomasz Dwojak, Hieu Hoang, Kenneth Heafield, Tom Neckermann, Frank
    Seide, Ulrich Germann, Alham Fikri Aji, Nikolay Bogoychev, André F. T. Martins, Alexandra Birch (2018). Marian: fast
    neural machine translation in C++. ACL. arXiv:1804.00344.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from foveal.errors import FovealError, expect, short_repr
from foveal.models.convert import MARIAN, Weights, apart, built, found, ours_of, places, tables
from foveal.models.transformer import Transformer, TransformerConfig, check


def to_marian(model: Transformer) -> tuple[dict[str, Any], Weights]:
    """The config (config.json) and the weights of transformers' MarianMTModel."""
    config = ours_of(model)
    for name, wanted in (("norm", "post"), ("position", "sinusoidal"), ("residual", True)):
        expect(
            getattr(config, name) == wanted,
            f"the model's {name}",
            f"{wanted!r}, as Marian has it",
            repr(getattr(config, name)),
        )
    expect(
        config.head_width in (None, config.width // config.heads),
        "the model's head_width",
        "width / heads",
        config.head_width,
    )
    own = apart(model.state_dict())
    order = _order(config.width)
    theirs: Weights = {}
    for ours, name, kind in places(config, MARIAN):
        if kind == "attention":
            for letter, other in zip(("q", "k", "v", "out"), ("q_proj", "k_proj", "v_proj", "out_proj"), strict=True):
                theirs |= _moved(
                    own, f"{ours}.{letter}", f"{name}.{other}", "rows" if letter == "out" else "columns", order
                )
        else:
            theirs |= _moved(own, ours, name, kind, order)
    for ours, name in _tables(config).items():
        theirs[name] = own[ours][:, order]
    bias = own.get("tables.bias")
    theirs["final_logits_bias"] = (
        own["tables.source.weight"].new_zeros(1, config.target_vocab) if bias is None else bias[None]
    )
    return _marian_config(config), {name: tensor.contiguous() for name, tensor in theirs.items()}


def from_marian(hf_config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Transformer:
    """Our model, in evaluation mode, from the config (config.json) and the weights of a MarianMTModel."""
    config = _config(hf_config)
    check(config)
    # Positions are computed; tables that are tied may stand in a file several times.
    theirs = {name: tensor for name, tensor in weights.items() if not name.endswith("embed_positions.weight")}
    order = torch.argsort(_order(config.width))
    own: Weights = {}
    for ours, name, kind in places(config, MARIAN):
        if kind == "attention":
            for letter, other in zip(("q", "k", "v", "out"), ("q_proj", "k_proj", "v_proj", "out_proj"), strict=True):
                own |= _moved(
                    theirs, f"{name}.{other}", f"{ours}.{letter}", "rows" if letter == "out" else "columns", order
                )
        else:
            own |= _moved(theirs, name, ours, kind, order)
    for ours, place in _tables(config).items():
        others = {
            "tables.source.weight": "model.encoder.embed_tokens.weight",
            "tables.target.weight": "model.decoder.embed_tokens.weight",
        }
        stands = next(
            (name for name in (place, others.get(ours, place), "model.shared.weight") if name in theirs), place
        )
        own[ours] = found(theirs, stands)[:, order]
    bias = theirs.get("final_logits_bias")
    own["tables.bias"] = own["tables.source.weight"].new_zeros(config.target_vocab) if bias is None else bias[0]
    return built(config, own, {})


def _moved(weights: Mapping[str, Tensor], name: str, other: str, kind: str, order: Tensor) -> Weights:
    """A layer under another name, with the model's channels in another order: they are its rows, its columns,
    or all it has (a norm).
    """
    weight, bias = found(weights, f"{name}.weight"), found(weights, f"{name}.bias")
    if kind == "columns":
        return {f"{other}.weight": weight[:, order], f"{other}.bias": bias}
    return {f"{other}.weight": weight[order], f"{other}.bias": bias[order]}


def _order(width: int) -> Tensor:
    """π: which of our channels each of Marian's is."""
    return torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))


def _tables(config: TransformerConfig) -> dict[str, str]:
    """Our names of the embedding tables → Marian's."""
    source = "model.shared.weight" if config.tied == "all" else "model.encoder.embed_tokens.weight"
    named = tables(config, source, "model.decoder.embed_tokens.weight", "lm_head.weight", "")
    named.pop("tables.bias", None)
    return named


def _marian_config(config: TransformerConfig) -> dict[str, Any]:
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": config.source_vocab,
        "decoder_vocab_size": config.target_vocab,
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
        "max_position_embeddings": config.max_length,
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


def _config(hf_config: Mapping[str, Any]) -> TransformerConfig:
    missing = sorted({"model_type", "d_model", "vocab_size"} - set(hf_config))
    expect(not missing, "the config of Marian", "a config.json of transformers", f"one without {', '.join(missing)}")
    expect(
        hf_config["model_type"] == "marian",
        "the config",
        "that of a 'marian'",
        f"that of a {short_repr(hf_config['model_type'])}",
    )
    expect(
        hf_config.get("scale_embedding", False) is True,
        "the config's scale_embedding",
        "true",
        hf_config.get("scale_embedding"),
    )
    for name in ("attention_heads", "ffn_dim"):
        one, other = hf_config.get(f"encoder_{name}"), hf_config.get(f"decoder_{name}")
        expect(one == other, f"the config's encoder_{name}", f"{other}, as the decoder's", one)
    shared, tied = hf_config.get("share_encoder_decoder_embeddings", True), hf_config.get("tie_word_embeddings", True)
    activation = hf_config.get("activation_function", "gelu")
    try:
        return TransformerConfig(
            source_vocab=hf_config["vocab_size"],
            target_vocab=hf_config.get("decoder_vocab_size") or hf_config["vocab_size"],
            width=hf_config["d_model"],
            hidden=hf_config["encoder_ffn_dim"],
            heads=hf_config["encoder_attention_heads"],
            layers=hf_config["encoder_layers"],
            decoder_layers=hf_config["decoder_layers"],
            dropout=hf_config.get("dropout", 0.1),
            attention_dropout=hf_config.get("attention_dropout", 0.0),
            hidden_dropout=hf_config.get("activation_dropout", 0.0),
            activation="swish" if activation == "silu" else activation,
            max_length=hf_config.get("max_position_embeddings", 1024),
            tied="none" if not tied else "all" if shared else "output",
            output_bias=True,
            pad=hf_config["pad_token_id"],
            begin=hf_config["decoder_start_token_id"],
            end=hf_config["eos_token_id"],
            # the models of OPUS have it there, and their configs do not say so
            unknown=hf_config.get("unk_token_id", 1),
        )
    except KeyError as error:
        raise FovealError(f"the config of Marian: expected {error.args[0]}, got none") from None
