"""Frames of feature maps (B, T, C, h, w) as tokens: along time for every place, or along space for every frame.

Rows of tokens come place by place or frame by frame, so a mask of B samples is repeated for the places of each.
"""

from torch import Size, Tensor, nn

from foveal.core.algebra import Given
from foveal.core.mask import Mask
from foveal.errors import FovealError, short_repr
from foveal.layers.attention import check_dtype


def check_video(layer: nn.Module, video: Tensor, width: int, weight: Tensor | None = None) -> None:
    """Raise a FovealError that names the layer unless video is (B, T, width, h, w) with something on it."""
    fits = isinstance(video, Tensor) and video.dim() == 5 and video.shape[2] == width
    if not fits or 0 in video.shape[1:]:
        got = tuple(video.shape) if isinstance(video, Tensor) else short_repr(video)
        raise FovealError(f"{type(layer).__name__}'s video: expected (B, T, {width}, h, w), got {got}")
    check_dtype(layer, "video", video, weight)


def along_time(video: Tensor) -> Tensor:
    """(B, T, C, h, w) → (B·h·w, T, C)."""
    return video.permute(0, 3, 4, 1, 2).flatten(0, 2)


def from_places(tokens: Tensor, shape: Size) -> Tensor:
    """The way back: (B·h·w, T, C) → (B, T, C, h, w)."""
    batch, frames, width, h, w = shape
    return tokens.view(batch, h, w, frames, width).permute(0, 3, 4, 1, 2)


def along_space(video: Tensor) -> Tensor:
    """(B, T, C, h, w) → (B·T, h·w, C)."""
    return video.permute(0, 1, 3, 4, 2).flatten(2, 3).flatten(0, 1)


def from_frames(tokens: Tensor, shape: Size) -> Tensor:
    """The way back: (B·T, h·w, C) → (B, T, C, h, w)."""
    batch, frames, width, h, w = shape
    return tokens.view(batch, frames, h, w, width).permute(0, 1, 4, 2, 3)


def for_places(mask: Mask | Tensor | None, video: Tensor) -> Mask | Tensor | None:
    """A mask on pairs of frames of B samples → the same for the h·w places of each sample."""
    mask = Given(mask) if isinstance(mask, Tensor) else mask
    if not isinstance(mask, Mask) or not mask.batched:  # what is no mask, the attention refuses
        return mask
    batch, frames, _, h, w = video.shape
    kept = mask.dense(frames, frames, batch=batch, device=video.device)  # (1 or B, 1 or H, T, T)
    return kept if kept.shape[0] == 1 else kept.repeat_interleave(h * w, 0)
