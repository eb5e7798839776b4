"""The Transformer: an encoder whose tokens attend to each other, and a decoder whose tokens attend to those before
them and to the encoder's.

    x⁰ = √C·E_source + PE;   x ← LN(x + Attention(x));   x ← LN(x + FFN(x)),   `layers` times;   m = x
    y⁰ = √C·E_target + PE;   y ← LN(y + CausalAttention(y));   y ← LN(y + Attention(y, m));   y ← LN(y + FFN(y)),
        `decoder_layers` times;   logits = y E_outᵀ

Symbols: B batch, M tokens of the source, N of the target, C the width, PE the positions. All of it is made of
    `layers/` and `position/`.
Paper: Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. Gomez, Łukasz Kaiser, Illia
    Polosukhin (2017). Attention is all you need. NeurIPS. arXiv:1706.03762.
Departs from the paper: the projections of attention have biases, as in torch and Marian. norm="pre" ends each stack
    with one more LayerNorm; norm="none" and residual=False are ablations. position="relative" is Shaw's (a vector for
    each distance up to 16, one table per layer for all heads, no term on the values) and "rotary" RoFormer's, both in
    self-attention only, with nothing added to the input.
Cost: O((M² + N² + N·M)·C + (M + N)·C²) time per layer.
Example: Transformer(TransformerConfig(17, 19, width=14, hidden=28, heads=2, layers=1, decoder_layers=1,
    tied="output"))(torch.arange(4, 11)[None], torch.arange(4, 9)[None])
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from foveal.core.mask import Mask
from foveal.core.pattern.causal import causal
from foveal.errors import FovealError, expect, expect_integer, short_repr
from foveal.layers.cache import Cache, Memory
from foveal.layers.decoder import Decoder
from foveal.layers.encoder import Encoder
from foveal.layers.feed_forward import FeedForward
from foveal.layers.multihead import MultiHead
from foveal.layers.residual import Plain, PlainPostNorm, PlainPreNorm, PostNorm, PreNorm, Residual
from foveal.models.sequence import (
    Beams,
    Encoded,
    Tables,
    check_config,
    check_encoded,
    check_tokens,
    padding_of,
    read_lengths,
)
from foveal.position.learned import Learned
from foveal.position.position import Position
from foveal.position.relative import Relative
from foveal.position.rotary import Rotary
from foveal.position.sinusoidal import Sinusoidal


@dataclass(frozen=True)
class TransformerConfig:
    source_vocab: int = 37000  # size of the source's vocabulary
    target_vocab: int = 37000
    width: int = 512  # C; the paper's d_model
    hidden: int = 2048  # of the feed-forward network; the paper's d_ff
    heads: int = 8
    head_width: int | None = None  # of keys and values; None: width / heads
    layers: int = 6  # of the encoder
    decoder_layers: int = 6
    dropout: float = 0.1  # on each layer's output, and on embedding + position
    attention_dropout: float = 0.0  # on α
    hidden_dropout: float = 0.0  # inside the feed-forward network
    activation: str = "relu"  # of the feed-forward network: "relu", "silu" (also called "swish") or "gelu"
    norm: str = "post"  # "post" is the paper's, "pre" has one more LayerNorm after each stack, "none"
    residual: bool = True  # False: an ablation
    position: str = "sinusoidal"  # or "learned", "relative", "rotary" or "none"
    max_length: int = 1024  # how many positions are learned
    tied: str = "all"  # "all": source, target and output are one table; "output": target and output are; "none"
    output_bias: bool = False  # on the logits, as Marian has it
    pad: int = 0  # ids of the marks; Marian begins with pad
    begin: int = 1
    end: int = 2
    unknown: int = 3
    family: str = field(default="transformer", init=False)

    def depth(self) -> int:
        """Blocks that are built one after the other."""
        return self.layers + self.decoder_layers


KIND = "tokens to tokens"
# Parameters with one vocabulary of 37,000 tokens, tied="all":
#
#     preset              width  hidden  heads  layers   tables      blocks       all          the paper says
#     transformer-tiny    128    256     4      4 + 4    4,736,000   1,325,056    6,061,056
#     transformer-small   256    1024    4      6 + 6    9,472,000   11,059,200   20,531,200
#     transformer-base    512    2048    8      6 + 6    18,944,000  44,138,496   63,082,496   65 million
#     transformer-big     1024   4096    16     6 + 6    37,888,000  176,357,376  214,245,376  213 million
#
# Of these, 36,864 (base) and 73,728 (big) are biases of attention. No vocabulary gives both of the paper's figures: 65
# million would take some 40,700 tokens, 213 million some 35,800.
PRESETS = {
    "transformer-tiny": TransformerConfig(width=128, hidden=256, heads=4, layers=4, decoder_layers=4, dropout=0.3),
    "transformer-small": TransformerConfig(width=256, hidden=1024, heads=4),
    "transformer-base": TransformerConfig(),
    "transformer-big": TransformerConfig(width=1024, hidden=4096, heads=16, dropout=0.3),
}


class Transformer(nn.Module):
    """Tokens of a source (B, M) and of a target (B, N),
    both padded on the right → logits of the target's next tokens (B, N, target_vocab).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        check(config)
        self.config, width = config, config.width
        self.tables = Tables(config.source_vocab, config.target_vocab, width, config.tied, config.output_bias)
        self.source_position, self.target_position = ADDED[config.position](config), ADDED[config.position](config)
        self.dropout = nn.Dropout(config.dropout)
        norm = NORMS[config.norm, config.residual]
        self.encoder = nn.ModuleList(
            Encoder(_own_attention(config), _feed_forward(config), norm, config.dropout) for _ in range(config.layers)
        )
        self.decoder = nn.ModuleList(
            Decoder(
                _own_attention(config, causal), _cross_attention(config), _feed_forward(config), norm, config.dropout
            )
            for _ in range(config.decoder_layers)
        )
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(width) if config.norm == "pre" else nn.Identity() for _ in range(2)
        )

    @property
    def recordable(self) -> bool:
        """Whether a step can be recorded as a CUDA graph: a GPU never waits in it for a look at numbers; but of
        attention's dropout one kernel draws the seed on the CPU.
        """
        return not self.config.attention_dropout

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs that it takes: tokens of a source and of a target."""
        source = torch.full((batch, 3), self.config.end)
        return source, source

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """target: what the decoder is given, which begins with the mark `begin`.

        Logits[:, i] are of the token after target[:, i].
        """
        return self.logits(self.decode(target, self.encode(source)))

    def encode(self, source: Tensor) -> Encoded:
        check_tokens("the source", source, self.config.source_vocab)
        lengths = read_lengths(source, self.config.pad)
        mask = padding_of(lengths, source.shape[1])
        x = self.dropout(self.source_position(self.tables.read_source(source)))  # (B, M, C)
        for layer in self.encoder:
            x = layer(x, mask=mask)
        return Encoded(self.encoder_norm(x), mask, lengths)

    def decode(self, target: Tensor, encoded: Encoded) -> Tensor:
        """All tokens at once: (B, N) → (B, N, C), of which `logits` makes logits."""
        check_tokens("the target", target, self.config.target_vocab)
        check_encoded(encoded)
        y = self.dropout(self.target_position(self.tables.read_target(target)))
        for layer in self.decoder:
            # A token attends to those before it only, and padding stands behind all tokens: causal is all the mask
            # there needs to be.
            y = layer(y, encoded.memory, memory_mask=encoded.mask)
        hidden: Tensor = self.decoder_norm(y)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, C) → logits (…, target_vocab)."""
        return self.tables.logits(hidden)

    @torch.no_grad()
    def begin_state(self, encoded: Encoded, beams: int, capacity: int) -> "State":
        """What a search of `beams` beams for each source carries from step to step, with room for `capacity` tokens."""
        check_encoded(encoded, beams)
        return State(
            [layer.new_cache(encoded.memory.shape[0] * beams, capacity) for layer in self._decoders()],
            [layer.remember(encoded.memory) for layer in self._decoders()],
            encoded,
            beams,
        )

    @torch.no_grad()
    def step(self, tokens: Tensor, state: "State") -> Tensor:
        """The next token of each row (R,) → logits of the token after it, (R, target_vocab)."""
        check_tokens("the tokens of a step", tokens, self.config.target_vocab, "(R,)")
        expect(len(tokens) == state.rows, "the tokens of a step", f"{state.rows}, one for each row", len(tokens))
        y = self.dropout(self.target_position(self.tables.read_target(tokens[:, None]), state.length))  # (R, 1, C)
        for layer, memory, cache in zip(self._decoders(), state.memories, state.caches, strict=True):
            y = layer.step(y, memory, memory_mask=state.mask, cache=cache)
        return self.logits(self.decoder_norm(y[:, 0]))

    def _decoders(self) -> list[Decoder]:
        return [layer for layer in self.decoder if isinstance(layer, Decoder)]


class State(Beams):
    """A beam search's memory: for each decoder layer the keys and values of the tokens so far,
    and those of the sources, which all beams share.
    """

    def __init__(self, caches: list[Cache], memories: list[Memory], encoded: Encoded, beams: int) -> None:
        super().__init__(encoded.memory.shape[0], beams)
        self.caches, self.memories = caches, memories
        self.mask, self.lengths = encoded.mask, encoded.lengths

    @property
    def length(self) -> int:
        """How many tokens each row has."""
        return self.caches[0].length

    def reorder(self, parents: Tensor) -> None:
        """Row r becomes what row parents[r] was, a beam of the same source."""
        order = self._parents(parents)
        for cache in self.caches:
            cache.reorder(order)

    def keep(self, sources: Tensor) -> None:
        """Only the sources of these numbers stay, with all their beams: the others are finished."""
        kept, rows = self._kept(sources)
        for cache in self.caches:
            cache.keep(rows)
        self.memories = [
            Memory(memory.k.index_select(0, kept), memory.v.index_select(0, kept)) for memory in self.memories
        ]
        self.lengths = self.lengths.index_select(0, kept)
        self.mask = padding_of(self.lengths, self.memories[0].k.shape[2])


FARTHEST = 16  # distances that Shaw's positions distinguish, as in the paper's base model
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "silu": nn.SiLU, "swish": nn.SiLU, "gelu": nn.GELU}
NORMS: dict[tuple[str, bool], type[Residual]] = {
    ("post", True): PostNorm,
    ("pre", True): PreNorm,
    ("none", True): Residual,
    ("post", False): PlainPostNorm,
    ("pre", False): PlainPreNorm,
    ("none", False): Plain,
}
ADDED: dict[str, Callable[[TransformerConfig], Position]] = {  # to the input
    "sinusoidal": lambda config: Sinusoidal(config.width),
    "learned": lambda config: Learned(config.width, config.max_length),
    "relative": lambda _: Position(),
    "rotary": lambda _: Position(),
    "none": lambda _: Position(),
}
INSIDE: dict[str, Callable[[int], Position]] = {  # of self-attention, by the width of a head
    "relative": lambda width: Relative(width, FARTHEST),
    "rotary": Rotary,
}


def _own_attention(config: TransformerConfig, mask: Mask | None = None) -> MultiHead:
    inside = INSIDE.get(config.position)
    return MultiHead(
        config.width,
        config.heads,
        head_width=config.head_width,
        position=None if inside is None else inside(config.head_width or config.width // config.heads),
        mask=mask,
        dropout=config.attention_dropout,
    )


def _cross_attention(config: TransformerConfig) -> MultiHead:
    return MultiHead(
        config.width,
        config.heads,
        key_width=config.width,
        head_width=config.head_width,
        dropout=config.attention_dropout,
    )


def _feed_forward(config: TransformerConfig) -> FeedForward:
    layer = FeedForward(config.width, config.hidden, ACTIVATIONS[config.activation](), config.hidden_dropout)
    for linear in (layer.inner, layer.outer):  # as attention's own: after Glorot and Bengio
        nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(linear.bias)
    return layer


def check(config: TransformerConfig) -> None:
    """Raise a FovealError unless a Transformer can be built so."""
    if not isinstance(config, TransformerConfig):
        raise FovealError(f"Transformer's config: expected a TransformerConfig, got {short_repr(config)}")
    sizes = ("width", "hidden", "heads", "layers", "decoder_layers", "max_length")
    choices = {"norm": ("post", "pre", "none"), "position": ADDED, "activation": ACTIVATIONS}
    check_config("Transformer", config, sizes, ("dropout", "attention_dropout", "hidden_dropout"), choices)
    for name in ("residual", "output_bias"):
        expect(
            isinstance(getattr(config, name), bool),
            f"Transformer's {name}",
            "True or False",
            short_repr(getattr(config, name)),
        )
    if config.head_width is None:
        expect(
            config.width % config.heads == 0,
            "Transformer's heads",
            f"a divisor of the width {config.width}",
            config.heads,
        )
    else:
        expect_integer(config.head_width, "Transformer's head_width")
    wide = config.head_width or config.width // config.heads
    expect(
        config.position != "rotary" or wide % 2 == 0,
        "Transformer's head_width",
        "an even number with rotary positions",
        wide,
    )
