"""What foveal says when it is given something it cannot use."""

import pytest

from foveal.errors import FovealError, expect, unknown


def test_the_message_has_what_was_expected_and_what_was_found():
    with pytest.raises(FovealError) as error:
        expect(False, "radius", "at least 0", -3, "give it a sign less")
    assert str(error.value) == "radius: expected at least 0, got -3; give it a sign less"
    with pytest.raises(FovealError) as error:
        expect(False, "radius", "at least 0", -3)
    assert str(error.value) == "radius: expected at least 0, got -3"


def test_nothing_is_said_when_it_holds():
    expect(True, "radius", "at least 0", 3)


def test_it_is_a_value_error():
    assert issubclass(FovealError, ValueError)


@pytest.mark.parametrize(("name", "nearest"), [("locl", "local"), ("LOCAL", "local"), ("casual", "causal"), ("xyz", None)])
def test_an_unknown_name_is_answered_with_the_nearest(name, nearest):
    message = str(unknown("mask", name, ["local", "causal"]))
    assert message.startswith(f"no mask is called {name!r}; ")
    assert message.endswith("there are causal, local")
    assert nearest is None or f"the nearest is {nearest!r}" in message


LAYERS = ["Attention", "MultiHead", "Additive", "Encoder", "two_way", "icam-31k", "icam-fast"]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("MultiheadAttention", "MultiHead"),
        ("multihead", "MultiHead"),
        ("Multi_Head", "MultiHead"),
        ("TwoWay", "two_way"),
        ("icam31k", "icam-31k"),
        ("icamfast", "icam-fast"),
        ("enc", "Encoder"),
        ("Adaptive", "Additive"),
        ("e", None),
        ("swin", None),
        ("zzz", None),
    ],
)
def test_the_nearest_is_what_was_meant_or_nothing(name, nearest):
    message = str(unknown("layer", name, LAYERS))
    assert ("the nearest is" in message) == (nearest is not None)
    assert nearest is None or f"; the nearest is {nearest!r}; there are " in message


def test_a_model_has_no_near_mask():
    assert "nearest" not in str(unknown("mechanism", "icam", ["local", "causal", "additive", "rotary", "window"]))


def test_there_may_be_no_names_at_all():
    assert str(unknown("mask", "local", [])).startswith("no mask is called 'local'")
