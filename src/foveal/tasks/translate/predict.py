"""An exported translator, opened: sentences in, sentences out, by the same search as with torch. Needs tokenizers, and no torch.

translate = Translator("model.onnx")
translate(["A dog sleeps."])          # ["Ein Hund schläft."]
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foveal.errors import expect, expect_integer, is_integer, short_repr
from foveal.runtime.card import Card
from foveal.runtime.decode.batched import MOST, beginnings, decode_all, positions
from foveal.runtime.decode.search import Search
from foveal.runtime.onnx_names import (
    BANNED,
    ENDS,
    KEYS,
    LENGTHS,
    LIKELY,
    SAID,
    SAID_KEYS,
    SAID_VALUES,
    SOURCE,
    SOURCE_KEYS,
    SOURCE_VALUES,
    TOP,
    VALUES,
    WORD,
)
from foveal.tasks.classify.session import exported
from foveal.tasks.translate.onnx_engine import OnnxEngine

MARKS = ("pad", "begin", "end")


class Translator:
    def __init__(self, file: str | Path, threads: int = 1) -> None:
        from foveal.runtime.vocabulary import both_from

        self.engine, self.card, self.proof = opened_translator(file, threads)
        expect(bool(self.card.vocabulary), str(file), "a model with its vocabulary", "one without")
        self.source, self.target = both_from(self.card.vocabulary)

    def __call__(self, lines: Sequence[str], search: Search | None = None, batch: int = 32, most: int = MOST) -> list[str]:
        """The best translation of each line. most: pieces of a line, its end included; of a longer one only these are read, in silence."""
        expect_integer(most, "most", 2)
        search, known = Search() if search is None else search, positions(self.card.config)
        sources = beginnings(self.source.encode(lines), most if known is None else min(most, known))
        if known is not None:
            search = dataclasses.replace(search, room=min(known, search.room or known))
        found = decode_all(self.engine, sources, search, batch)
        return self.target.decode([sentences[0].words for sentences in found])


def opened_translator(file: str | Path, threads: int = 1) -> tuple[OnnxEngine, Card, dict[str, Any]]:
    """The engine of a file, its card and its proof."""
    session, card, proof = exported(file, threads, "translate")
    _check(session, card, str(file))
    return OnnxEngine(session, card.config), card, proof


def _check(session: Any, card: Card, file: str) -> None:
    """A file may come from anybody: what the card promises must be in the graph."""
    config = card.config
    for name, least in [*((mark, 0) for mark in MARKS), ("target_words", 1), ("decoder_layers", 1), ("longest", 1)]:
        value = config.get(name)
        expect(is_integer(value) and least <= int(value or 0) < 2**31, file, f"a config whose {name} is a whole number", short_repr(value))
    layers = range(min(int(config["decoder_layers"]), len(session.get_inputs())))
    kept = {name.format(layer) for layer in layers for name in (SOURCE_KEYS, SOURCE_VALUES, SAID_KEYS, SAID_VALUES)}
    inputs = {one.name: one.shape for one in session.get_inputs()}
    wanted = kept | {SOURCE, SAID, TOP, BANNED, LENGTHS}
    expect(set(inputs) == wanted, file, f"the inputs of a translator of {config['decoder_layers']} layers", short_repr(sorted(inputs)))
    sized = all(len(inputs[name]) == 4 and all(isinstance(size, int) for size in inputs[name][1::2]) for name in kept)
    expect(sized, file, "keys and values (rows, H, t, D)", short_repr([inputs[name] for name in sorted(kept)][:1]))
    answers = {one.name for one in session.get_outputs()}
    missing = {LIKELY, WORD, ENDS, *(name.format(layer) for layer in layers for name in (KEYS, VALUES))} - answers
    expect(not missing, file, "the answers of a translator", f"none called {', '.join(sorted(missing))}")
