"""Which cases of a grid run in every `make test`, and which in `make test-all` only."""

import pytest


def first_is_quick(cases):
    """The first case as a representative; the others are slow."""
    first, *others = cases
    return [
        first,
        *(pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow) for case in others),
    ]


def one_of_each(cases, kind):
    """The first case of each kind; the others are slow."""
    seen = set()
    return [
        case if kind(case) not in seen and not seen.add(kind(case)) else pytest.param(case, marks=pytest.mark.slow)
        for case in cases
    ]
