"""What every module on feature maps expects: maps (B, C, h, w) of the dtype of its weights, and parts that are made."""

from torch import Tensor, nn

from foveal.errors import FovealError, expect, expect_integer, short_repr
from foveal.layers.attention import check_dtype


def check_maps(
    layer: nn.Module, maps: Tensor, width: int | None = None, weight: Tensor | None = None, name: str = "maps"
) -> None:
    """Raise a FovealError that names the layer unless maps are (B, width, h, w) with something on them."""
    fits = isinstance(maps, Tensor) and maps.dim() == 4 and maps.shape[1] == (maps.shape[1] if width is None else width)
    if not fits or 0 in maps.shape[1:]:
        got = tuple(maps.shape) if isinstance(maps, Tensor) else short_repr(maps)
        raise FovealError(f"{type(layer).__name__}'s {name}: expected (B, {width or 'C'}, h, w), got {got}")
    check_dtype(layer, name, maps, weight)


def check_parts(layer: nn.Module, **parts: nn.Module | None) -> None:
    """Raise a FovealError that names the layer and the argument unless every part is a module, or None."""
    for name, part in parts.items():
        fits = part is None or isinstance(part, nn.Module)
        expect(fits, f"{type(layer).__name__}'s {name}", "a module, such as nn.Sigmoid()", short_repr(part))


def check_kernel(layer: nn.Module, kernel: int) -> None:
    """Raise a FovealError that names the layer unless the kernel is an odd integer, which has a middle."""
    what = f"{type(layer).__name__}'s kernel"
    expect_integer(kernel, what, expected="an odd integer, at least 1")
    expect(kernel % 2 == 1, what, "an odd integer, at least 1", kernel)
