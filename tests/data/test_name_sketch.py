"""Which images a model was trained on, from a few kilobytes: exact for few, near for many,
and nothing for what is no sketch.
"""

import json

import pytest

from foveal.data.name_sketch import KEPT, count_known, sketch


def names(start, end):
    return [f"images/{number:06d}.jpg".encode() for number in range(start, end)]


def test_few_are_counted_exactly():
    kept = json.loads(json.dumps(sketch(names(0, 300))))
    assert count_known(kept, names(250, 420)) == (50, True)
    assert count_known(kept, names(300, 420)) == (0, True)
    assert count_known(kept, [b"\xff\xfe", *names(7, 8)]) == (1, True)


def test_many_are_estimated_and_cost_no_more():
    kept = sketch(names(0, 40_000))
    assert len(json.dumps(kept)) < 7 * KEPT
    count, exact = count_known(kept, names(30_000, 60_000))
    assert not exact
    assert count == pytest.approx(10_000, rel=0.15)
    assert count_known(kept, names(50_000, 60_000)) == (0, True)


@pytest.mark.parametrize(
    "facts",
    [
        None,
        3,
        {},
        {"names": 3},
        {"names": "3", "hashes": "AAAA"},
        {"names": 3, "hashes": "?"},
        {"names": 0, "hashes": ""},
    ],
)
def test_what_is_no_sketch(facts):
    assert count_known(facts, names(0, 3)) is None
