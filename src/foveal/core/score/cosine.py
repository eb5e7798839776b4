"""Cosine score: the angle between a query and a key alone, whatever their lengths.

    e_ij = q_i·k_j / (‖q_i‖·‖k_j‖) / temperature

Symbols: temperature, a number or a tensor that broadcasts to (B, H, N, M); its inverse is the paper's key strength β.
Paper: Alex Graves, Greg Wayne, Ivo Danihelka (2014). Neural Turing machines. arXiv:1410.5401.
Departs from the paper: a vector shorter than 10⁻⁶ is divided by 10⁻⁶, so that a zero vector scores 0 instead of NaN.
Cost: O(N·M·D) time, O(N·M) memory.
Example: cosine(q, k, temperature=0.1)
"""

import torch.nn.functional as F
from torch import Tensor

from foveal.core.score import check_heads
from foveal.core.score.dot import dot
from foveal.errors import expect

SHORTEST = 1e-6  # a length that float16 can still hold


def cosine(q: Tensor, k: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
    """(B, H, N, D), (B, G, M, D) → (B, H, N, M)."""
    check_heads(q, k)
    expect(isinstance(temperature, Tensor) or temperature > 0, "cosine's temperature", "above 0", temperature)
    return dot(F.normalize(q, dim=-1, eps=SHORTEST), F.normalize(k, dim=-1, eps=SHORTEST), scale=1.0) / temperature
