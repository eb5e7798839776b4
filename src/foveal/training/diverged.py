"""A training whose numbers are none any more: the one line that says so, by which a table of many runs knows it."""

from foveal.errors import FovealError

DIVERGED = "training: expected finite numbers, got NaN or infinity; lower --lr, or choose --precision 32"


def expect_finite(finite: bool) -> None:
    if not finite:
        raise FovealError(DIVERGED)
