"""A stem that reads the bytes of a camera as they come, several pixels of a row at a time: for int8.

    y(i, j) = Σ_(row, column, colour) W u(s i + row − p, s j + column − p) + b
            = Σ_(row, run) W′ (r pixels of the row)          for r/s columns j that lie side by side

    b of pixels minus 255μ becomes that of bytes: b − Σ W 255μ;   around the image lies the colour 255μ, rounded

Symbols: u bytes, s the stride, p the padding before, r = 4 pixels of three colours, which are one of 12 channels; W′
has the weights of W where a pixel takes part, and else zeros. onnxruntime gathers what an int8 convolution sees a
position of the kernel at a time, and channels by fours: of 256 × 256 pixels, kernel 3, stride 2 and 32 channels,
0.47 ms of one thread of an AMD EPYC become 0.18, although twice as much is multiplied. Departs from the stem by the
rounding of the colour around the image, at most half a step of a byte.
"""

import torch
from torch import Tensor, nn

from foveal.models.mbconv import Same

RUN = 4  # pixels


class ByteStem(nn.Module):
    """Bytes (B, H, W, 3), H and W multiples of the stride and of RUN → the stem's map (B, C, H/s, W/s)."""

    around: Tensor  # (3,)

    def __init__(self, stem: nn.Conv2d, activation: nn.Module, mean: tuple[float, ...]) -> None:
        """stem: of pixels minus 255μ, as the bytes have them: BatchNorm and the divisor are in its weights."""
        super().__init__()
        self.activation = activation
        kernel, stride, width = stem.kernel_size[0], stem.stride[0], stem.out_channels
        before = (kernel - stride) // 2 if isinstance(stem, Same) else int(stem.padding[0])
        self.columns = max(RUN // stride, 1)
        self.run = self.columns * stride  # pixels
        self.above, self.below = before, kernel - stride - before
        self.left = -(-before // self.run)  # runs
        self.right = -(-max(0, kernel - stride - before) // self.run)
        runs = self.left + 1 + self.right
        weight = torch.zeros(self.columns, width, runs * self.run, 3, kernel, dtype=stem.weight.dtype)
        for column in range(self.columns):
            first = self.left * self.run + column * stride - before
            weight[column, :, first : first + kernel] = stem.weight.detach().permute(0, 3, 1, 2)
        # (column, out, run, pixel, colour, row) → (column · out, pixel · colour, row, run)
        weight = weight.unflatten(2, (runs, self.run)).permute(0, 1, 3, 4, 5, 2).flatten(2, 3).flatten(0, 1)
        self.convolution = nn.Conv2d(3 * self.run, self.columns * width, (kernel, runs), (stride, 1))
        shown = 255 * torch.tensor(mean, dtype=torch.float64)
        assert stem.bias is not None
        bias = stem.bias.detach() - stem.weight.detach().double().sum((2, 3)) @ shown
        self.convolution.weight = nn.Parameter(weight, requires_grad=False)
        self.convolution.bias = nn.Parameter(bias.repeat(self.columns).to(weight.dtype), requires_grad=False)
        self.register_buffer("around", shown.round().to(torch.uint8), persistent=False)

    def forward(self, frames: Tensor) -> Tensor:
        row = self._coloured(frames[:, :1])
        frames = torch.cat([*[row] * self.above, frames, *[row] * self.below], 1)
        column = self._coloured(frames[:, :, : self.run])
        frames = torch.cat([*[column] * self.left, frames, *[column] * self.right], 2)
        runs = frames.unflatten(2, (-1, self.run)).flatten(3)
        y = self.activation(self.convolution(runs.permute(0, 3, 1, 2).to(self.convolution.weight.dtype)))
        squares: Tensor = y.permute(0, 2, 3, 1).unflatten(3, (self.columns, -1)).flatten(2, 3)
        return squares.permute(0, 3, 1, 2)

    def _coloured(self, part: Tensor) -> Tensor:
        """As much of the colour around the image: its size needs no arithmetic in a graph."""
        return torch.maximum(torch.minimum(part, torch.zeros_like(self.around)), self.around)
