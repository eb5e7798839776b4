"""BigBird's pattern: a local window, random keys, and global tokens.

    keeps = local(radius) | random(count, seed, block) | to_global(n)

Paper: Manzil Zaheer, Guru Guruganesh, Avinava Dubey, Joshua Ainslie, Chris Alberti, Santiago Ontanon, Philip Pham,
    Anirudh Ravula, Qifan Wang, Li Yang, Amr Ahmed (2020). Big Bird: transformers for longer sequences. NeurIPS.
    arXiv:2007.14062.
Departs from the paper: the window is of tokens, not of blocks, and the draw does not avoid window and globals.
Cost: at most N·(2·radius + 1 + count·block) + n·(N + M) pairs: linear in N.
Example: bigbird(radius=2, count=2, n=1)
"""

from foveal.core.mask import Mask
from foveal.core.pattern.local import local
from foveal.core.pattern.random import random
from foveal.core.pattern.to_global import to_global


def bigbird(radius: int, count: int, n: int = 1, seed: int = 0, block: int = 1) -> Mask:
    return local(radius) | random(count, seed, block) | to_global(n)
