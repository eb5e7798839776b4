"""Temporal attention: every place of a frame looks at the same place in all frames, and weighs which frames matter.

    y_t(i, j) = MultiHead(x_1(i, j) … x_T(i, j))_t;   with a position added: x_t + P_t in place of x_t

Symbols: x_t(i, j) the channels (C) of frame t at place (i, j); P_t the position of frame t.
Paper: Gedas Bertasius, Heng Wang, Lorenzo Torresani (2021). Is space-time attention all you need for video
    understanding? ICML. arXiv:2102.05095.
Departs from the paper: this is the time half of its divided attention, without LayerNorm and residual, which
    `SpaceTime` adds; a position is the layer's own, where the paper adds one before the first block. A frame that may
    look at nothing yields the output's bias.
Cost: O(h·w·(T·C² + T²·C)) time; 4·C² parameters.
Example: TemporalAttention(6, 3)(video)
"""

from torch import Tensor, nn

from foveal.core.mask import Mask
from foveal.layers.multihead import MultiHead
from foveal.position.position import Position
from foveal.vision.frames import along_time, check_video, for_places, from_places


class TemporalAttention(nn.Module):
    """Frames (B, T, width, h, w) → the same shape. `watch` sees its weights as (B·h·w, heads, T, T)."""

    def __init__(self, width: int, heads: int, *, position: Position | None = None, dropout: float = 0.0) -> None:
        """position: added to the frames (Learned, Sinusoidal), or at work inside the attention (Rotary)."""
        super().__init__()
        added = isinstance(position, Position) and type(position).embed is not Position.embed
        self.width = width
        self.position = position if added else None
        self.attention = MultiHead(width, heads, position=None if added else position, dropout=dropout)

    def forward(self, video: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
        """mask: on pairs of frames, such as foveal.mask.padding(lengths) for videos of several lengths, or causal."""
        check_video(self, video, self.width, self.attention.out.weight)
        frames = along_time(video)
        if self.position is not None:
            frames = self.position(frames)
        return from_places(self.attention(frames, mask=for_places(mask, video)), video.shape)
