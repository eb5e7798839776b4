"""Weights carried over between our Transformer and torch.nn.Transformer, both ways; `marian.py` does it for Marian.

    W_in_proj = [W_q; W_k; W_v]

The same numbers in other places, so that the logits are the same to rounding.

torch.nn.Transformer has neither embeddings nor positions: beside its own names the weights have `source.weight`, and
`target.weight` and `generator.weight` (and `generator.bias`) unless they are tied to it. It computes what ours does
between √C·E + PE and the logits. It always ends both stacks with a LayerNorm, as pre-norm needs and the paper's
post-norm does not have: for norm="post" build it with `custom_encoder=nn.TransformerEncoder(layer, layers, norm=None)`
and `custom_decoder=nn.TransformerDecoder(layer, layers, norm=None)`.
"""

from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from foveal.errors import FovealError, expect
from foveal.models.transformer import Transformer, TransformerConfig, check

Weights = dict[str, Tensor]
Kind = TypeVar("Kind", bound=nn.Module)

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
# what stands beside torch.nn.Transformer
TABLES = ("source.weight", "target.weight", "generator.weight", "generator.bias")


def to_torch(model: Transformer) -> Weights:
    """The weights under the names of torch.nn.Transformer, and of the embedding tables beside it."""
    config = ours_of(model)
    _expect_torch(config)
    own = apart(model.state_dict())
    theirs: Weights = {}
    for ours, name, kind in places(config, TORCH):
        for part in ("weight", "bias"):
            if kind == "attention":
                theirs[f"{name}.in_proj_{part}"] = torch.cat([own[f"{ours}.{letter}.{part}"] for letter in "qkv"])
                theirs[f"{name}.out_proj.{part}"] = own[f"{ours}.out.{part}"]
            else:
                theirs[f"{name}.{part}"] = own[f"{ours}.{part}"]
    return theirs | {name: own[ours] for ours, name in tables(config, *TABLES).items()}


def from_torch(weights: Mapping[str, Tensor], config: TransformerConfig) -> Transformer:
    """Our model, in evaluation mode, with the weights of a torch.nn.Transformer and of its tables. config:
    what weights do not say.
    """
    check(config)
    _expect_torch(config)
    theirs, own = dict(weights), dict[str, Tensor]()
    ends = [name for name in theirs if name.startswith(("encoder.norm.", "decoder.norm."))]
    if ends and config.norm != "pre":
        raise FovealError(
            f"the weights: expected no LayerNorm after the stacks with norm={config.norm!r}, got {ends[0]}; "
            "torch.nn.Transformer adds one unless its encoder and decoder are built with norm=None"
        )
    for ours, name, kind in places(config, TORCH):
        for part in ("weight", "bias"):
            if kind == "attention":
                letters = _taken(theirs, f"{name}.in_proj_{part}").chunk(3)
                own |= {f"{ours}.{letter}.{part}": tensor for letter, tensor in zip("qkv", letters, strict=True)}
                own[f"{ours}.out.{part}"] = _taken(theirs, f"{name}.out_proj.{part}")
            else:
                own[f"{ours}.{part}"] = _taken(theirs, f"{name}.{part}")
    for ours, name in tables(config, *TABLES).items():
        own[ours] = _taken(theirs, name)
    tied = {"target.weight": ("all",), "generator.weight": ("all", "output")}
    for name, kinds in tied.items():  # a tied table may stand there again
        if config.tied in kinds and name in theirs:
            table = (
                "tables.target.weight"
                if name == "generator.weight" and config.tied == "output"
                else "tables.source.weight"
            )
            expect(
                torch.equal(theirs.pop(name), own[table]), f"the weights' {name}", f"a table tied to {table}", "another"
            )
    return built(config, own, theirs)


def places(config: TransformerConfig, whose: int) -> list[tuple[str, str, str]]:
    """(our name, their name, where the model's channels are) of every layer."""
    kinds = {"layer": "attention", "inner": "columns", "outer": "rows", "norm": "rows"}
    prefix = "model." if whose == MARIAN else ""
    named = []
    for stack, parts, count in (("encoder", ENCODER, config.layers), ("decoder", DECODER, config.decoder_layers)):
        for number in range(count):
            for part in parts:
                kind = kinds[part[0].rpartition(".")[2]]
                if config.norm != "none" or not part[0].endswith("norm"):
                    named.append(
                        (f"{stack}.{number}.{part[0]}", f"{prefix}{stack}.layers.{number}.{part[whose]}", kind)
                    )
        if config.norm == "pre":
            named.append((f"{stack}_norm", f"{prefix}{stack}.norm", "rows"))
    return named


def tables(config: TransformerConfig, source: str, target: str, output: str, bias: str) -> dict[str, str]:
    """Our names of the embedding tables → these, without those that are tied to another."""
    named = {"tables.source.weight": source}
    if config.tied != "all":
        named["tables.target.weight"] = target
    if config.tied == "none":
        named["tables.out.weight"] = output
    return named | ({"tables.bias": bias} if config.output_bias else {})


def _expect_torch(config: TransformerConfig) -> None:
    """Raise a FovealError unless torch.nn.Transformer can be such a model."""
    norms = config.norm in ("post", "pre")
    expect(
        norms and config.residual,
        "the model's norm",
        "'post' or 'pre' with residual=True, as torch has it",
        repr(config.norm),
    )
    expect(
        config.head_width in (None, config.width // config.heads),
        "the model's head_width",
        "width / heads",
        config.head_width,
    )
    inside = config.position in ("relative", "rotary")
    expect(
        not inside,
        "the model's position",
        "one that is added to the embeddings",
        repr(config.position),
        "torch has none in attention",
    )
    learned = config.position == "learned"
    expect(
        not learned, "the model's position", "'sinusoidal' or 'none'", "'learned'", "its tables have no name in torch"
    )


def ours_of(model: object) -> TransformerConfig:
    """The config of a model, if it is ours."""
    expect(isinstance(model, Transformer), "the model", "a Transformer of foveal's", type(model).__name__)
    assert isinstance(model, Transformer)
    return model.config


def apart(state: Mapping[str, Tensor]) -> Weights:
    """Our weights with q, k and v each under a name of its own."""
    each: Weights = {}
    for name, tensor in state.items():
        layer, _, part = name.rpartition(".")
        prefix, _, letters = layer.rpartition(".")
        if letters in ("qkv", "kv"):
            split = zip(letters, tensor.detach().chunk(len(letters)), strict=True)
            each |= {f"{prefix}.{letter}.{part}": one for letter, one in split}
        else:
            each[name] = tensor.detach()
    return each


def built(config: TransformerConfig, own: Weights, left: Mapping[str, Tensor]) -> Transformer:
    """The model with these weights."""
    with torch.device("meta"):
        model = Transformer(config)
    return filled(model, own, left)


def filled(model: Kind, own: Weights, left: Mapping[str, Tensor]) -> Kind:
    """A model that was built on the device meta with these weights, q, k and v joined as its layers have them."""
    expect(not left, "the weights", "those of the model and no others", f"{', '.join(sorted(left)[:4])} besides")
    joined: Weights = {}
    for name, place in model.state_dict().items():
        layer, _, part = name.rpartition(".")
        prefix, _, letters = layer.rpartition(".")
        whole = (
            torch.cat([found(own, f"{prefix}.{one}.{part}") for one in letters])
            if letters in ("qkv", "kv")
            else found(own, name).clone()
        )
        expect(whole.shape == place.shape, f"the weights of {name}", tuple(place.shape), tuple(whole.shape))
        joined[name] = whole.contiguous()
    model.load_state_dict(joined, assign=True)
    return model.requires_grad_(True).eval()


def found(weights: Mapping[str, Tensor], name: str) -> Tensor:
    """The weight of this name; a FovealError without one."""
    if name not in weights:
        raise FovealError(f"the weights: expected {name}, got none of that name")
    return weights[name]


def _taken(weights: Weights, name: str) -> Tensor:
    tensor = found(weights, name)
    del weights[name]
    return tensor
