"""An engine that needs no model: what comes next is drawn from the source and all words so far,
and is the same each time.
"""

import itertools
import zlib

import numpy as np

from foveal.runtime.decode.engine import Next

END, FIRST = 2, 1


class Toy:
    first, end = FIRST, END

    def __init__(self, vocabulary=5, sharp=1.5):
        self.vocabulary, self.sharp = vocabulary, sharp
        self.steps, self.rows = 0, 0

    def log_probabilities(self, source, prefix):
        """(vocabulary,) log-probabilities; the first mark and 0, the padding, never come."""
        seed = zlib.crc32(repr((tuple(source), tuple(int(word) for word in prefix))).encode())
        logits = self.sharp * np.random.default_rng(seed).standard_normal(self.vocabulary)
        logits[[0, FIRST]] = -np.inf
        return logits - np.log(np.exp(logits).sum())

    def begin(self, sources, beams, limit):
        self.sources = [tuple(source) for source in sources]
        self.beams, self.limit = beams, limit
        self.prefixes = [() for _ in sources for _ in range(beams)]

    def step(self, tokens, top_k, bans):
        assert len(tokens) == len(self.prefixes) == len(self.sources) * self.beams
        self.steps, self.rows = self.steps + 1, self.rows + len(tokens)
        self.prefixes = [(*prefix, int(token)) for prefix, token in zip(self.prefixes, tokens, strict=True)]
        assert max(map(len, self.prefixes)) <= self.limit
        log_p = np.array(
            [
                self.log_probabilities(self.sources[row // self.beams], prefix[1:])
                for row, prefix in enumerate(self.prefixes)
            ]
        )
        if bans is not None:
            log_p[bans.rows, bans.tokens] = -np.inf
        order = np.argsort(-log_p, 1, kind="stable")[:, :top_k]
        return Next(np.take_along_axis(log_p, order, 1), order, log_p[:, END])

    def reorder(self, parents):
        assert (parents // self.beams == np.arange(len(parents)) // self.beams).all()
        self.prefixes = [self.prefixes[parent] for parent in parents]

    def keep(self, sources):
        self.sources = [self.sources[source] for source in sources]
        self.prefixes = [self.prefixes[source * self.beams + beam] for source in sources for beam in range(self.beams)]

    def total(self, source, words):
        """log P of a sentence and its end."""
        ended = (*words, END)
        return sum(self.log_probabilities(source, ended[:place])[word] for place, word in enumerate(ended))

    def everything(self, source, longest):
        """Every sentence of at most so many words."""
        for length in range(longest + 1):
            yield from itertools.product(range(3, self.vocabulary), repeat=length)
