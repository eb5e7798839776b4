"""An engine that needs no model: what comes next is drawn from the source and all words so far, and is the same each time."""

import itertools
import zlib

import numpy as np

from foveal.runtime.decode.engine import Next

END, FIRST = 2, 1


class Toy:
    first, end = FIRST, END

    def __init__(self, words=5, sharp=1.5):
        self.words, self.sharp = words, sharp
        self.steps, self.rows = 0, 0

    def told(self, source, said):
        """(words,) log-probabilities; the first mark and 0, the padding, are never said."""
        seed = zlib.crc32(repr((tuple(source), tuple(int(word) for word in said))).encode())
        logits = self.sharp * np.random.default_rng(seed).standard_normal(self.words)
        logits[[0, FIRST]] = -np.inf
        return logits - np.log(np.exp(logits).sum())

    def begin(self, sources, beams, longest):
        self.sources = [tuple(source) for source in sources]
        self.beams, self.longest = beams, longest
        self.said = [() for _ in sources for _ in range(beams)]

    def step(self, words, top, bans):
        assert len(words) == len(self.said) == len(self.sources) * self.beams
        self.steps, self.rows = self.steps + 1, self.rows + len(words)
        self.said = [(*said, int(word)) for said, word in zip(self.said, words, strict=True)]
        assert max(map(len, self.said)) <= self.longest
        told = np.array([self.told(self.sources[row // self.beams], said[1:]) for row, said in enumerate(self.said)])
        if bans is not None:
            told[bans.rows, bans.words] = -np.inf
        order = np.argsort(-told, 1, kind="stable")[:, :top]
        return Next(np.take_along_axis(told, order, 1), order, told[:, END])

    def reorder(self, parents):
        assert (parents // self.beams == np.arange(len(parents)) // self.beams).all()
        self.said = [self.said[parent] for parent in parents]

    def keep(self, sources):
        self.sources = [self.sources[source] for source in sources]
        self.said = [self.said[source * self.beams + beam] for source in sources for beam in range(self.beams)]

    def total(self, source, words):
        """log P of a sentence and its end."""
        ended = (*words, END)
        return sum(self.told(source, ended[:place])[word] for place, word in enumerate(ended))

    def everything(self, source, longest):
        """Every sentence of at most so many words."""
        for length in range(longest + 1):
            yield from itertools.product(range(3, self.words), repeat=length)
