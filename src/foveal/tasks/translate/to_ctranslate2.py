"""A Transformer as a folder for CTranslate2, whose engine runs it without foveal and without torch.

    E + PE: the model's own positions as a table;   [q; k; v], [k; v] and norms: the same matrices under other names

What fits: norm "post" or "pre" with residual=True; positions that are added to the embeddings ("sinusoidal",
"learned", "none"); heads of width / heads; any tying of tables, any activation, a bias on the logits. "relative" and
"rotary" do not: CTranslate2 has them for other kinds of models only.

The vocabularies are written in the order of foveal's, so that ids of tokens agree; marks are " <s>" and so on, with a
space that no subword has. The card lies beside as foveal.json. Its scores divide log P by |Y|^α, ours by ((5 +
|Y|)/6)^α: with α = 0 they agree.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from foveal.errors import FovealError, expect
from foveal.models.transformer import Transformer
from foveal.position.learned import Learned
from foveal.position.sinusoidal import sinusoid
from foveal.runtime.vocabulary import Vocabulary
from foveal.tasks.translate.card import TranslateCard

FILE, PROOF = "foveal.json", "foveal.proof.json"
POSITIONS = 1024  # of a table of computed ones, at least
QUANTISED = {"fp32": None, "int8": "int8"}


def export_ctranslate2(
    model: nn.Module, card: TranslateCard, vocabularies: tuple[Vocabulary, Vocabulary], folder: Path, precision: str
) -> None:
    """Make the folder and fill it."""
    try:
        from ctranslate2.specs import Activation, TransformerSpec
    except ModuleNotFoundError:
        raise FovealError(
            "to export: expected ctranslate2 to be installed, got none; pip install ctranslate2"
        ) from None
    if not isinstance(model, Transformer):
        raise FovealError(f"to export: expected a Transformer, got {card.model}; CTranslate2 has no recurrent models")
    check(model, vocabularies)
    config = model.config
    activations = {
        "relu": Activation.RELU,
        "silu": Activation.SWISH,
        "swish": Activation.SWISH,
        "gelu": Activation.GELU,
    }
    activation = activations[config.activation]
    pre = config.norm == "pre"
    spec = TransformerSpec.from_config(
        (config.layers, config.decoder_layers), config.heads, pre_norm=pre, activation=activation
    )
    for stack, ours in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        stack.scale_embeddings = True
        for theirs, block in zip(stack.layer, ours, strict=True):
            _block(theirs, block)
    _norm(spec.encoder, model.encoder_norm)
    _norm(spec.decoder, model.decoder_norm)
    spec.encoder.embeddings[0].weight = _array(model.tables.source.weight)
    spec.decoder.embeddings.weight = _array(model.tables.of_target)
    spec.decoder.projection.weight = _array(model.tables.of_output)
    if model.tables.bias is not None:
        spec.decoder.projection.bias = _array(model.tables.bias)
    spec.encoder.position_encodings.encodings = _positions(model, model.source_position)
    spec.decoder.position_encodings.encodings = _positions(model, model.target_position)
    source, target = (tokens_of(one) for one in vocabularies)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.add_source_eos, spec.config.add_source_bos = True, False
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = (
        target[place] for place in (config.begin, config.end, config.unknown)
    )
    spec.config.decoder_start_token = target[config.begin]
    spec.validate()
    spec.optimize(quantization=QUANTISED[precision])
    folder.mkdir()
    spec.save(str(folder))
    (folder / FILE).write_text(card.without_paths().text(), encoding="utf-8")


def check(model: Transformer, vocabularies: tuple[Vocabulary, Vocabulary]) -> None:
    """Raise a FovealError unless CTranslate2 can be such a model."""
    config, there = model.config, "as CTranslate2 has it"
    expect(config.norm in ("post", "pre"), "the model's norm", f"'post' or 'pre', {there}", repr(config.norm))
    expect(config.residual, "the model's residual", f"True, {there}", config.residual)
    added = config.position in ("sinusoidal", "learned", "none")
    expect(added, "the model's position", f"'sinusoidal', 'learned' or 'none', {there}", repr(config.position))
    expect(
        config.head_width in (None, config.width // config.heads),
        "the model's head_width",
        "width / heads",
        config.head_width,
    )
    for vocabulary, size in zip(vocabularies, (config.source_vocab, config.target_vocab), strict=True):
        expect(
            len(vocabulary) == size,
            "the model's vocabulary",
            f"{size} tokens, one for each row of the model's table",
            len(vocabulary),
        )


def tokens_of(vocabulary: Vocabulary) -> list[str]:
    """Every token as CTranslate2 knows it, in the order of the ids."""
    return [str(vocabulary.tokenizer.id_to_token(number)) for number in range(len(vocabulary))]


def _block(theirs: Any, block: Any) -> None:
    own = block.attention if hasattr(block, "attention") else block.self_attention
    _linear(theirs.self_attention.linear[0], own.layer.qkv)
    _linear(theirs.self_attention.linear[1], own.layer.out)
    _norm(theirs.self_attention, own.norm)
    if hasattr(block, "cross_attention"):
        cross = block.cross_attention
        for place, layer in enumerate((cross.layer.q, cross.layer.kv, cross.layer.out)):
            _linear(theirs.attention.linear[place], layer)
        _norm(theirs.attention, cross.norm)
    _linear(theirs.ffn.linear_0, block.feed_forward.layer.inner)
    _linear(theirs.ffn.linear_1, block.feed_forward.layer.outer)
    _norm(theirs.ffn, block.feed_forward.norm)


def _linear(theirs: Any, layer: Any) -> None:
    theirs.weight, theirs.bias = _array(layer.weight), _array(layer.bias)


def _norm(theirs: Any, norm: nn.Module) -> None:
    if isinstance(norm, nn.LayerNorm):
        theirs.layer_norm.gamma, theirs.layer_norm.beta = _array(norm.weight), _array(norm.bias)


def _positions(model: Transformer, position: nn.Module) -> Any:
    """(positions, C), the table that is added to the embeddings."""
    if isinstance(position, Learned):
        return _array(position.table)
    positions, width = positions_of(model), model.config.width
    if model.config.position == "none":
        return np.zeros((positions, width), np.float32)
    return _array(sinusoid(torch.arange(positions), width))


def positions_of(model: Transformer) -> int:
    """Of a table of computed positions: CTranslate2 knows no others."""
    return max(POSITIONS, model.config.max_length)


def _array(weight: Tensor) -> Any:
    """A copy: CTranslate2 scales and rounds what it is given where it is."""
    return np.array(weight.detach().cpu().float().numpy(), order="C")
