"""Images as patches that a network sees one by one, and what it saw in them as one grid again."""

from torch import Tensor

from foveal.errors import FovealError, short_repr


def cut(images: Tensor, patch: int) -> tuple[Tensor, int, int]:
    """Images (B, 3, h, w) → patches (B·P, 3, patch, patch), row by row, and the grid's sides."""
    if not isinstance(images, Tensor):
        raise FovealError(f"Icam's images: expected a tensor (B, 3, h, w), got {short_repr(images)}")
    shape = tuple(images.shape)
    if len(shape) != 4 or shape[1] != 3 or any(side < patch or side % patch for side in shape[2:]):
        raise FovealError(
            f"Icam's images: expected (B, 3, h, w) with sides that {patch} divides, got {shape}; resize them"
        )
    batch, channels, height, width = images.shape
    rows, columns = height // patch, width // patch
    tiles = images.reshape(batch, channels, rows, patch, columns, patch).permute(0, 2, 4, 1, 3, 5)
    return tiles.reshape(batch * rows * columns, channels, patch, patch), rows, columns


def grid_of(features: Tensor, rows: int, columns: int) -> Tensor:
    """The cells of all patches (B·P, C, s, s) as one grid (B, rows·s, columns·s, C)."""
    channels, side = features.shape[1], features.shape[2]
    tiles = features.reshape(-1, rows, columns, channels, side, side).permute(0, 1, 4, 2, 5, 3)
    return tiles.reshape(-1, rows * side, columns * side, channels)
