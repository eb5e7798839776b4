"""An exported translator as a search asks it: see decode/engine.py for the questions, and graph.py for the graph. numpy and onnxruntime, no torch.

A step gives keys and values of all tokens so far, and takes them back: what a search moves is moved in between, and only the rows that do move.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.errors import FovealError, expect
from foveal.runtime.decode.batched import max_positions
from foveal.runtime.decode.engine import Bans, Next, Rows, padded, never_generated
from foveal.tasks.translate.graph_names import (
    BANNED,
    ENDS,
    KEYS,
    LENGTHS,
    LOG_P,
    NEXT,
    PAST_KEYS,
    PAST_VALUES,
    SOURCE,
    SOURCE_KEYS,
    SOURCE_VALUES,
    TOKENS,
    TOP_K,
    VALUES,
)

Arrays = dict[str, NDArray[Any]]


class OnnxEngine:
    def __init__(self, session: Any, config: Mapping[str, Any]) -> None:
        """session: of onnxruntime; config: the card's."""
        self.session, self.config = session, config
        self.pad, self.first, self.end = (int(config[name]) for name in ("pad", "begin", "end"))
        self.never = never_generated(self.pad, self.first, self.end)
        self.vocabulary = int(config["target_words"])
        self.layers = int(config["decoder_layers"])
        self.positions = max_positions(config)
        shapes = {one.name: one.shape for one in session.get_inputs()}
        pairs = [(SOURCE_KEYS, PAST_KEYS), (SOURCE_VALUES, PAST_VALUES)]
        self.names = [tuple(name.format(layer) for name in pair) for layer in range(self.layers) for pair in pairs]  # (of source, of past)
        self.made = [name.format(layer) for layer in range(self.layers) for name in (KEYS, VALUES)]
        self.none: Arrays = {name: np.zeros((0, shapes[name][1], 0, shapes[name][3]), np.float32) for pair in self.names for name in pair}
        self.none |= {LENGTHS: _numbers(0), TOKENS: _numbers(0), SOURCE: _numbers(0, 0), BANNED: _numbers(0, 2), TOP_K: np.ones(1, np.int64)}
        self.feed: Arrays = {}
        self.beams = 1

    def begin(self, sources: Sequence[Sequence[int]], beams: int, limit: int) -> None:
        tokens, lengths = padded(sources, self.pad, self.end)
        self._check(len(tokens[0]))
        remembered = self._run(self.made, self.none | {SOURCE: tokens})
        self.beams = beams
        self.feed = self.none | {LENGTHS: lengths}
        for (source_name, past_name), keys in zip(self.names, remembered, strict=True):
            self.feed[source_name] = keys
            heads, width = self.none[past_name].shape[1::2]
            self.feed[past_name] = np.zeros((len(tokens) * beams, heads, 0, width), np.float32)

    def step(self, tokens: Rows, top_k: int, bans: Bans | None) -> Next:
        self._check(self.feed[self.names[0][1]].shape[2] + 1)
        rows = len(tokens)
        banned = np.stack([np.arange(rows).repeat(len(self.never)), np.tile(self.never, rows)], 1)
        if bans is not None:
            banned = np.concatenate([banned, np.stack([bans.rows, bans.tokens], 1)])
        asked = {TOKENS: np.ascontiguousarray(tokens, np.int64), TOP_K: np.array([min(top_k, self.vocabulary)], np.int64), BANNED: banned}
        values, chosen, ends, *kept = self._run([LOG_P, NEXT, ENDS, *self.made], self.feed | asked)
        for (_, past_name), keys in zip(self.names, kept, strict=True):
            self.feed[past_name] = keys
        return Next(values.astype(np.float64), chosen, ends.astype(np.float64))

    def reorder(self, parents: Rows) -> None:
        moved = np.flatnonzero(parents != np.arange(len(parents)))
        if not len(moved):
            return
        whose = parents[moved]
        for _, past_name in self.names:
            keys = self.feed[past_name]
            keys[moved] = keys[whose]  # the right side is a copy: no row is written before it is read

    def keep(self, sources: Rows) -> None:
        rows = (np.asarray(sources)[:, None] * self.beams + np.arange(self.beams)).reshape(-1)
        self.feed[LENGTHS] = self.feed[LENGTHS][sources]
        longest = int(self.feed[LENGTHS].max())
        for source_name, past_name in self.names:
            self.feed[source_name] = np.ascontiguousarray(self.feed[source_name][sources][:, :, :longest])
            self.feed[past_name] = self.feed[past_name][rows]

    def _run(self, names: list[str], feed: Arrays) -> list[NDArray[Any]]:
        try:
            answers: list[NDArray[Any]] = self.session.run(names, feed)
        except Exception as error:  # noqa: BLE001 — a file from anybody may fail in any operator
            reason = " ".join(str(error).split())[:160]
            raise FovealError(f"the exported model: expected an answer, got {reason}") from None
        return answers

    def _check(self, tokens: int) -> None:
        fits = self.positions is None or tokens <= self.positions
        expect(fits, "a sentence", f"at most {self.positions} tokens, the positions that were learned", tokens)


def _numbers(*shape: int) -> NDArray[np.int64]:
    return np.zeros(shape, np.int64)
