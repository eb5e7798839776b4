"""Each block of queries looks at `count` blocks of keys, drawn without replacement by Floyd from a Mersenne twister."""

from random import Random

ROWS = 65536  # blocks of queries that draw for themselves; every draw is made for all of them, one after the other


def random(count, seed=0, block=1, *, queries, keys):
    """→ (queries, keys) of bool."""
    columns = -(-keys // block)
    drawn = table(min(count, columns), seed, columns, -(-queries // block))
    kept = [[False] * keys for _ in range(queries)]
    for i in range(queries):
        for column in drawn[i // block % ROWS]:
            for j in range(column * block, min((column + 1) * block, keys)):
                kept[i][j] = True
    return kept


def table(count, seed, columns, rows):
    """The blocks that each of the first `rows` blocks of queries draws: (rows, count)."""
    drawn = [[] for _ in range(rows)]
    twister = seeded(seed)
    for draw in range(count):
        last = columns - count + draw  # Floyd: draw from 0 … last, and take `last` itself if that one is taken
        numbers = [twister.getrandbits(32) % (last + 1) for _ in range(ROWS)]
        for row, number in zip(drawn, numbers, strict=False):
            row.append(last if number in row else number)
    return drawn


def seeded(seed):
    """MT19937 with the seeding of Matsumoto and Nishimura (2002), which Python's own seeding is not."""
    state = [seed & 0xFFFFFFFF]
    for place in range(1, 624):
        before = state[-1] ^ (state[-1] >> 30)
        state.append((1812433253 * before + place) & 0xFFFFFFFF)
    twister = Random()
    twister.setstate((3, (*state, 624), None))
    return twister
