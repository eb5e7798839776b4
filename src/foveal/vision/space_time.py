"""Divided space-time attention: every place looks along time, then every frame looks at itself.

    x̂ = x + Time(LN(x));   x̃ = x̂ + Space(LN(x̂));   y = x̃ + FFN(LN(x̃))

Symbols: Time attention among the T frames, for each of the h·w places; Space attention among the h·w places, for each
    of the T frames; FFN the same network for every place and frame, or none.
Paper: Gedas Bertasius, Heng Wang, Lorenzo Torresani (2021). Is space-time attention all you need for video
    understanding? ICML. arXiv:2102.05095.
Departs from the paper: there is no class token, which in the paper every frame's places see, too. Its code has one
    more linear map behind Time's output projection: their product is this one's output projection.
Cost: O(N·(T + h·w)·C + N·C²) time, N = T·h·w, where attention among all places of all frames takes O(N²·C).
Example: SpaceTime(MultiHead(6, 3), MultiHead(6, 2), FeedForward(6, 11))(video)
"""

from torch import Tensor, nn

from foveal.core.mask import Mask
from foveal.layers.encoder import check_norm, shared_width
from foveal.layers.feed_forward import FeedForward  # noqa: F401  for the example above
from foveal.layers.multihead import MultiHead  # noqa: F401  for the example above
from foveal.layers.residual import PreNorm, Residual
from foveal.vision.frames import along_space, along_time, check_video, for_places, from_frames, from_places


class SpaceTime(nn.Module):
    """Frames (B, T, C, h, w) → the same shape, by any layers on tokens (B, N, C) that keep their shape.

    A position along time is that of `time`: MultiHead(width, heads, position=Rotary()).
    """

    def __init__(
        self,
        time: nn.Module,
        space: nn.Module,
        feed_forward: nn.Module | None = None,
        norm: type[Residual] = PreNorm,
        dropout: float = 0.0,
        *,
        width: int | None = None,
    ) -> None:
        """norm: how each layer is wrapped. dropout: on each layer's output. width: needed only if no layer has one."""
        super().__init__()
        check_norm(self, norm)
        self.width = shared_width(width, time, space, *([] if feed_forward is None else [feed_forward]))
        self.time = norm(time, self.width, dropout)
        self.space = norm(space, self.width, dropout)
        self.feed_forward = None if feed_forward is None else norm(feed_forward, self.width, dropout)

    def forward(self, video: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
        """mask: on pairs of frames, for the attention along time: foveal.mask.padding(lengths), causal."""
        check_video(self, video, self.width)
        timed = self.time(along_time(video), mask=for_places(mask, video))
        x = self.space(along_space(from_places(timed, video.shape)))
        if self.feed_forward is not None:
            x = self.feed_forward(x)
        return from_frames(x, video.shape)
