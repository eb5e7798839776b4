"""What every module on feature maps expects of its input: (B, C, h, w), of the dtype of its weights."""

from torch import Tensor, nn

from foveal.errors import FovealError, short_repr
from foveal.layers.attention import check_dtype


def check_maps(layer: nn.Module, maps: Tensor, width: int, weight: Tensor | None = None, name: str = "maps") -> None:
    """Raise a FovealError that names the layer unless maps are (B, width, h, w) with something on them."""
    fits = isinstance(maps, Tensor) and maps.dim() == 4 and maps.shape[1] == width
    if not fits or 0 in maps.shape[2:]:
        got = tuple(maps.shape) if isinstance(maps, Tensor) else short_repr(maps)
        raise FovealError(f"{type(layer).__name__}'s {name}: expected (B, {width}, h, w), got {got}")
    check_dtype(layer, name, maps, weight)
