"""How many processes a command may start: a number that was mistyped must not bring the machine down."""

import os

from foveal.errors import FovealError, expect_integer

A_CORE = 16  # processes for each core; more only wait for each other


def check_jobs(count: object, flag: str, least: int = 1) -> None:
    """Raise a FovealError that names the flag, unless so many processes make sense here."""
    expect_integer(count, flag, least)
    cores = os.cpu_count() or 1
    if count > A_CORE * cores:  # type: ignore[operator]
        raise FovealError(f"{flag}: expected at most {A_CORE * cores}, {A_CORE} for each of the {cores} cores, got {count}")
