"""Dynamic convolution: each token makes the weights of its own small window, from itself alone.

    x′ = GLU(x W_in);   α_i = softmax_t (W_h x′_i) for each head h;   y_ic = Σ_t α_it x′_{i + ahead − (K−1) + t, c}
    out = y W_out

Symbols: K taps, `ahead` of them to the right of the token: 0 is causal, (K − 1)/2 is centred; channel c is in head h =
    ⌊c·H/C⌋.
Paper: Felix Wu, Angela Fan, Alexei Baevski, Yann N. Dauphin, Michael Auli (2019). Pay less attention with lightweight
    and dynamic convolutions. ICLR. arXiv:1901.10430.
Departs from the paper: nothing. Taps that lie outside of the sequence read 0 and keep their weight, as there; dropout
    falls on α (the paper's DropConnect).
Cost: O(N·C² + N·K·C) time, O(N·(C + H·K)) memory: linear in the length.
Example: DynamicConvolution(14, heads=7, kernel_size=3, ahead=1)(x)
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foveal.core.attend import normalise
from foveal.core.linear import order_and_keys
from foveal.core.mask import Mask
from foveal.core.observe import Look, observers, report
from foveal.errors import FovealError, expect, expect_integer
from foveal.layers.attention import check_dropout, check_sizes, check_tokens


class DynamicConvolution(nn.Module):
    """A convolution over tokens whose kernel each token predicts: linear in the length,
    and no pair is ever compared.
    """

    def __init__(self, width: int, heads: int, kernel_size: int, *, ahead: int = 0, dropout: float = 0.0) -> None:
        """ahead: how many of the taps lie right of the token; 0 looks at the past only."""
        super().__init__()
        check_sizes(self, width=width, heads=heads, kernel_size=kernel_size)
        expect(width % heads == 0, "DynamicConvolution's heads", f"a divisor of the width {width}", heads)
        taps = f"0 to {kernel_size - 1}, as it has {kernel_size} taps"
        expect_integer(ahead, "DynamicConvolution's ahead", 0, taps)
        expect(ahead < kernel_size, "DynamicConvolution's ahead", taps, ahead)
        check_dropout(self, dropout)
        self.width, self.heads, self.kernel_size, self.ahead, self.dropout = width, heads, kernel_size, ahead, dropout
        self.gate = nn.Linear(width, 2 * width)  # W_in
        self.kernel = nn.Linear(width, heads * kernel_size, bias=False)  # W_h of all heads
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
        """Tokens (B, N, C) → (B, N, C). mask: padding, so that filler is read as 0.

        The taps themselves say how far is seen.
        """
        check_tokens(self, "x", x, self.width, self.gate.weight)
        batch, tokens, _ = x.shape
        ordered, kept = order_and_keys(mask, batch, tokens, tokens, x.device)
        if ordered and self.ahead:
            raise FovealError(
                f"DynamicConvolution's mask: expected padding, got causal with {self.ahead} taps ahead; build it with "
                "ahead=0"
            )
        x = F.glu(self.gate(x), -1)
        scores = self.kernel(x).view(batch, tokens, self.heads, self.kernel_size)
        alpha = normalise(scores).to(x.dtype)
        if observers:
            report(Look(batch, self.heads, tokens, tokens, "convolution", partial(self._rows, alpha, kept)))
        alpha = torch.dropout(alpha, self.dropout, self.training)
        if kept is not None:
            x = x.masked_fill(~kept[:, 0].transpose(-1, -2), 0)
        projected: Tensor = self.out(self._convolved(x, alpha))
        return projected

    def _convolved(self, x: Tensor, alpha: Tensor) -> Tensor:
        """Tap by tap, so that no window is copied: (B, N, C), (B, N, H, K) → (B, N, C)."""
        tokens = x.shape[1]
        shape = (self.heads, self.width // self.heads)
        padded = F.pad(x, (0, 0, self.kernel_size - 1 - self.ahead, self.ahead)).unflatten(2, shape)
        y: Tensor = torch.zeros_like(x).unflatten(2, shape)
        for tap in range(self.kernel_size):
            y = torch.addcmul(y, padded[:, tap : tap + tokens], alpha[..., tap, None])  # (B, N, H, D)
        return y.flatten(2)

    def _rows(self, alpha: Tensor, kept: Tensor | None, rows: Tensor) -> Tensor:
        """Where each tap falls: (B, N, H, K) → weights (B, H, n, N).

        Those of taps outside of the sequence are not in it.
        """
        tokens, left = alpha.shape[1], self.kernel_size - 1 - self.ahead
        places = rows[:, None] + torch.arange(self.kernel_size, device=rows.device)  # in the padded sequence
        band = alpha.new_zeros(alpha.shape[0], self.heads, len(rows), tokens + self.kernel_size - 1)
        some = alpha[:, rows].transpose(1, 2)  # (B, H, n, K)
        weights = band.scatter(3, places.expand(some.shape), some)[..., left : left + tokens]
        return weights if kept is None else weights * kept
