"""Recurrent sequence to sequence: one network reads the source, another writes the target; between them one vector, or
attention.

    [h→_j; h←_j] = bidirectional GRU(√A·E_source)_j;   last = [h→_M; h←_1];   s_0 = tanh(W_s last)
    c_i = last                                                               (attention="none")
    c_i = Σ_j α_ij h_j,   α_ij = softmax_j vᵀ tanh(W_q s_{i−1} + W_k h_j)    (attention="additive")
    s_i = GRU(s_{i−1}, [√A·E_target,i; c_i]);   t_i = tanh(W_t [s_i; √A·E_target,i; c_i]);   logits = t_i E_outᵀ

Symbols: A the width of embeddings, C that of a state, h_j ∈ R^{2C}, M the length of the source. Without attention all
    that the decoder learns of a source, short or long, is 2C numbers: the bottleneck that attention removes.
Paper: Kyunghyun Cho, Bart van Merriënboer, Caglar Gulcehre, Dzmitry Bahdanau, Fethi Bougares, Holger Schwenk, Yoshua
    Bengio (2014). Learning phrase representations using RNN encoder-decoder for statistical machine translation.
    EMNLP. arXiv:1406.1078.
Paper: Ilya Sutskever, Oriol Vinyals, Quoc V. Le (2014). Sequence to sequence learning with neural networks. NeurIPS.
    arXiv:1409.3215.
Paper, if self.config.attention == "additive": Dzmitry Bahdanau, Kyunghyun Cho, Yoshua Bengio (2015). Neural machine
    translation by jointly learning to align and translate. ICLR. arXiv:1409.0473.
Departs from the paper: without attention the encoder reads both ways, and the last states reach every step, as in
    Cho's. t_i is one tanh layer where the papers have maxout, and the tokens' tables are tied and scaled as in the
    Transformer, so that the two compare. s_0 is made of both last states, where Bahdanau takes one.
Cost: O((M + N)·C²) time, one step after the other; with attention O(N·M·C) more. With the vocabulary of 37,000 tokens
    (4,736,000 parameters) `rnn` has 1,330,324 parameters beside it and `rnn-attention` 1,326,832: about what
    transformer-tiny has, 1,325,056.
Example: Seq2Seq(Seq2SeqConfig(17, 19, width=6, hidden=5, tied="output"))(torch.arange(4, 11)[None],
    torch.arange(4, 9)[None])
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from foveal.core.mask import Mask
from foveal.errors import FovealError, expect, short_repr
from foveal.layers.additive import Additive
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


@dataclass(frozen=True)
class Seq2SeqConfig:
    source_vocab: int = 37000  # size of the source's vocabulary
    target_vocab: int = 37000
    width: int = 128  # A, of an embedding
    hidden: int = 220  # C, of a state: each way of the encoder, and the decoder
    attention: str = "additive"  # or "none"
    dropout: float = 0.3  # on embeddings, and on t
    tied: str = "all"  # "all": source, target and output are one table; "output": target and output are; "none"
    pad: int = 0  # ids of the marks
    begin: int = 1
    end: int = 2
    unknown: int = 3
    family: str = field(default="seq2seq", init=False)


KIND = "tokens to tokens"
PRESETS = {
    # as many parameters as transformer-tiny, with and without attention
    "rnn": Seq2SeqConfig(attention="none", hidden=236),
    "rnn-attention": Seq2SeqConfig(),
}


class Seq2Seq(nn.Module):
    """Tokens of a source (B, M) and of a target (B, N),
    both padded on the right → logits of the target's next tokens (B, N, target_vocab).
    """

    recordable = False  # as a CUDA graph (training/cuda_graph.py): packing reads lengths on the CPU

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        _check(config)
        self.config, width, hidden = config, config.width, config.hidden
        self.tables = Tables(config.source_vocab, config.target_vocab, width, config.tied)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.GRU(width, hidden, batch_first=True, bidirectional=True)
        self.first = nn.Linear(2 * hidden, hidden)  # W_s
        self.attention = Additive(hidden, 2 * hidden, hidden) if config.attention == "additive" else None
        self.decoder = nn.GRU(width + 2 * hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden + width + 2 * hidden, width)  # W_t

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
        embedded = self.dropout(self.tables.read_source(source))  # (B, M, A)
        # Packed, so that the way back begins at the last token and not at the padding; of nothing but padding one is
        # read.
        packed = pack_padded_sequence(embedded, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        memory, _ = pad_packed_sequence(self.encoder(packed)[0], batch_first=True, total_length=source.shape[1])
        return Encoded(memory, padding_of(lengths, source.shape[1]), lengths)

    def decode(self, target: Tensor, encoded: Encoded) -> Tensor:
        """All tokens of a target (B, N) → t (B, N, A), of which `logits` makes logits."""
        check_tokens("the target", target, self.config.target_vocab)
        check_encoded(encoded)
        embedded = self.dropout(self.tables.read_target(target))  # (B, N, A)
        last = last_of(encoded)
        state = torch.tanh(self.first(last))  # (B, C)
        if self.attention is None:  # the context never changes, so all steps are one call
            context = last[:, None].expand(-1, target.shape[1], -1)
            states, _ = self.decoder(torch.cat((embedded, context), -1), state[None])
            return self._readout(states, embedded, context)
        keys = self.attention.keys(encoded.memory)
        readouts = []
        for one in embedded.split(1, 1):  # (B, 1, A)
            context = self.attention(state[:, None], encoded.memory, keys=keys, mask=encoded.mask)
            states, after = self.decoder(torch.cat((one, context), -1), state[None])
            readouts.append(self._readout(states, one, context))
            state = after[0]
        return torch.cat(readouts, 1)

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, A) → logits (…, target_vocab)."""
        return self.tables.logits(hidden)

    @torch.no_grad()
    def begin_state(self, encoded: Encoded, beams: int, capacity: int) -> "State":
        """What a search of `beams` beams for each source carries from step to step. capacity: of no use here,
        as a state does not grow.
        """
        check_encoded(encoded, beams)
        last = last_of(encoded)
        keys = None if self.attention is None else self.attention.keys(encoded.memory)
        return State(torch.tanh(self.first(last)), last, keys, encoded, beams)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: "State") -> Tensor:
        """The next token of each row (R,) → logits of the token after it, (R, target_vocab)."""
        check_tokens("the tokens of a step", tokens, self.config.target_vocab, "(R,)")
        expect(len(tokens) == state.rows, "the tokens of a step", f"{state.rows}, one for each row", len(tokens))
        embedded = self.dropout(self.tables.read_target(tokens[:, None]))  # (R, 1, A)
        if self.attention is None:
            context = state.last[:, None].expand(-1, state.beams, -1)
        else:  # the beams of a source are queries to one memory
            queries = state.hidden.view(state.sources, state.beams, -1)
            context = self.attention(queries, state.memory, keys=state.keys, mask=state.mask)
        context = context.reshape(state.rows, 1, -1)
        states, after = self.decoder(torch.cat((embedded, context), -1), state.hidden[None])
        state.hidden = after[0]
        state.length += 1
        return self.logits(self._readout(states, embedded, context)[:, 0])

    def _readout(self, states: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        """t (B, N, A)."""
        readout: Tensor = self.dropout(torch.tanh(self.out(torch.cat((states, embedded, context), -1))))
        return readout


class State(Beams):
    """A beam search's memory: the state of each row, and of each source what all its beams read."""

    def __init__(self, first: Tensor, last: Tensor, keys: Tensor | None, encoded: Encoded, beams: int) -> None:
        super().__init__(encoded.memory.shape[0], beams)
        self.hidden = first.repeat_interleave(beams, 0)  # (R, C)
        self.last, self.keys, self.memory = last, keys, encoded.memory  # (S, 2C), (S, M, C), (S, M, 2C)
        self.mask: Mask | None = encoded.mask
        self.lengths = encoded.lengths
        self.length = 0  # how many tokens each row has

    def reorder(self, parents: Tensor) -> None:
        """Row r becomes what row parents[r] was, a beam of the same source."""
        self.hidden = self.hidden.index_select(0, self._parents(parents))

    def keep(self, sources: Tensor) -> None:
        """Only the sources of these numbers stay, with all their beams: the others are finished."""
        kept, rows = self._kept(sources)
        self.hidden = self.hidden.index_select(0, rows)
        self.last, self.memory, self.lengths = (
            tensor.index_select(0, kept) for tensor in (self.last, self.memory, self.lengths)
        )
        self.keys = None if self.keys is None else self.keys.index_select(0, kept)
        self.mask = padding_of(self.lengths, self.memory.shape[1])


def last_of(encoded: Encoded) -> Tensor:
    """[h→_M; h←_1]: where each way of the encoder ended, (B, 2C)."""
    memory, wide = encoded.memory, encoded.memory.shape[2] // 2
    at = (encoded.lengths.clamp(min=1) - 1)[:, None, None].expand(-1, 1, wide)
    return torch.cat((memory[:, :, :wide].gather(1, at)[:, 0], memory[:, 0, wide:]), -1)


def _check(config: Seq2SeqConfig) -> None:
    if not isinstance(config, Seq2SeqConfig):
        raise FovealError(f"Seq2Seq's config: expected a Seq2SeqConfig, got {short_repr(config)}")
    check_config("Seq2Seq", config, ("width", "hidden"), ("dropout",), {"attention": ("additive", "none")})
