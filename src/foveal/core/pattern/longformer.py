"""Longformer's pattern: a local window, and global tokens.

    keeps = local(radius) | to_global(n)

Paper: Iz Beltagy, Matthew E. Peters, Arman Cohan (2020). Longformer: the long-document transformer. arXiv:2004.05150.
Departs from the paper: global tokens share the projections of the others; the paper gives them their own.
Cost: at most N·(2·radius + 1) + n·(N + M) pairs: linear in N.
Example: longformer(radius=2, n=1)
"""

from foveal.core.mask import Mask
from foveal.core.pattern.local import local
from foveal.core.pattern.to_global import to_global


def longformer(radius: int, n: int = 1) -> Mask:
    return local(radius) | to_global(n)
