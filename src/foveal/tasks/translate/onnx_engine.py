"""An exported translator as a search asks it: see decode/engine.py for the questions,
and graph.py for the graph. numpy and onnxruntime, no torch.

A step gives keys and values of all tokens so far, and takes them back: what a search moves is moved in between, and
only the rows that do move.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.errors import FovealError, expect, is_integer, short_repr
from foveal.runtime.decode.batched import decode, max_positions
from foveal.runtime.decode.engine import Bans, Next, Rows, never_generated, padded
from foveal.runtime.decode.search import Search
from foveal.tasks.translate import graph_names as names

Arrays = dict[str, NDArray[Any]]
TIMED = 20  # tokens of a sentence that is timed, its end included


class OnnxEngine:
    def __init__(self, session: Any, config: Mapping[str, Any], file: str = "the exported model") -> None:
        """session: of onnxruntime; config: the card's; file: how to name it in an error."""
        _check_graph(session, config, file)
        self.session, self.config = session, config
        self.pad, self.first, self.end = (int(config[name]) for name in ("pad", "begin", "end"))
        self.never = never_generated(self.pad, self.first, self.end)
        self.vocabulary = int(config["target_vocab"])
        self.layers = int(config["decoder_layers"])
        self.positions = max_positions(config)
        shapes = {one.name: one.shape for one in session.get_inputs()}
        pairs = [(names.SOURCE_KEYS, names.PAST_KEYS), (names.SOURCE_VALUES, names.PAST_VALUES)]
        # (of source, of past)
        self.names = [tuple(name.format(layer) for name in pair) for layer in range(self.layers) for pair in pairs]
        self.made = [name.format(layer) for layer in range(self.layers) for name in (names.KEYS, names.VALUES)]
        self.none: Arrays = {
            name: np.zeros((0, shapes[name][1], 0, shapes[name][3]), np.float32) for pair in self.names for name in pair
        }
        self.none |= {
            names.LENGTHS: _numbers(0),
            names.TOKENS: _numbers(0),
            names.SOURCE: _numbers(0, 0),
            names.BANNED: _numbers(0, 2),
            names.TOP_K: np.ones(1, np.int64),
        }
        self.feed: Arrays = {}
        self.beams = 1

    def begin(self, sources: Sequence[Sequence[int]], beams: int, limit: int) -> None:
        tokens, lengths = padded(sources, self.pad, self.end)
        self._check(len(tokens[0]))
        remembered = self._run(self.made, self.none | {names.SOURCE: tokens})
        self.beams = beams
        self.feed = self.none | {names.LENGTHS: lengths}
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
        asked = {
            names.TOKENS: np.ascontiguousarray(tokens, np.int64),
            names.TOP_K: np.array([min(top_k, self.vocabulary)], np.int64),
            names.BANNED: banned,
        }
        values, chosen, ends, *kept = self._run([names.LOG_P, names.NEXT, names.ENDS, *self.made], self.feed | asked)
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
        self.feed[names.LENGTHS] = self.feed[names.LENGTHS][sources]
        longest = int(self.feed[names.LENGTHS].max())
        for source_name, past_name in self.names:
            self.feed[source_name] = np.ascontiguousarray(self.feed[source_name][sources][:, :, :longest])
            self.feed[past_name] = self.feed[past_name][rows]

    def _run(self, outputs: list[str], feed: Arrays) -> list[NDArray[Any]]:
        try:
            answers: list[NDArray[Any]] = self.session.run(outputs, feed)
        except Exception as error:  # noqa: BLE001 — a file from anybody may fail in any operator
            reason = " ".join(str(error).split())[:160]
            raise FovealError(f"the exported model: expected an answer, got {reason}") from None
        return answers

    def _check(self, tokens: int) -> None:
        fits = self.positions is None or tokens <= self.positions
        expect(fits, "a sentence", f"at most {self.positions} tokens, the positions that were learned", tokens)


def random_decoding(engine: OnnxEngine) -> Callable[[int], Callable[[], list[tuple[int, ...]]]]:
    """Batch → greedy search for as many sentences of random tokens. Each takes the same number of steps:
    the end is forbidden, then forced.
    """
    longest = TIMED if engine.positions is None else min(TIMED, engine.positions - 1)
    known = min(int(engine.config["source_vocab"]), engine.vocabulary)
    search = Search(beam=1, min_length=longest - 1, max_length=longest - 1)

    def job(batch: int) -> Callable[[], list[tuple[int, ...]]]:
        sources = np.random.default_rng(0).integers(known, size=(batch, longest - 1)).tolist()
        return lambda: [tuple(found[0].tokens) for found in decode(engine, sources, search)]

    return job


def _check_graph(session: Any, config: Mapping[str, Any], file: str) -> None:
    """A file may come from anybody: what the card promises must be in the graph."""
    for name, least in [
        ("pad", 0),
        ("begin", 0),
        ("end", 0),
        ("target_vocab", 1),
        ("decoder_layers", 1),
        ("max_length", 1),
    ]:
        value = config.get(name)
        fits = is_integer(value) and least <= int(value or 0) < 2**31
        expect(fits, file, f"a config whose {name} is an integer, at least {least}", short_repr(value))
    layers = range(min(int(config["decoder_layers"]), len(session.get_inputs())))
    kept = {
        name.format(layer)
        for layer in layers
        for name in (names.SOURCE_KEYS, names.SOURCE_VALUES, names.PAST_KEYS, names.PAST_VALUES)
    }
    inputs = {one.name: one.shape for one in session.get_inputs()}
    wanted = kept | {names.SOURCE, names.TOKENS, names.TOP_K, names.BANNED, names.LENGTHS}
    fits = set(inputs) == wanted
    expect(fits, file, f"the inputs of a decoder of {config['decoder_layers']} layers", short_repr(sorted(inputs)))
    fits = all(len(inputs[name]) == 4 and all(isinstance(size, int) for size in inputs[name][1::2]) for name in kept)
    expect(fits, file, "keys and values (rows, H, t, D)", short_repr([inputs[name] for name in sorted(kept)][:1]))
    outputs = {
        names.LOG_P,
        names.NEXT,
        names.ENDS,
        *(name.format(layer) for layer in layers for name in (names.KEYS, names.VALUES)),
    }
    missing = outputs - {one.name for one in session.get_outputs()}
    expect(not missing, file, "the outputs of a decoder", f"none called {', '.join(sorted(missing))}")


def _numbers(*shape: int) -> NDArray[np.int64]:
    return np.zeros(shape, np.int64)
