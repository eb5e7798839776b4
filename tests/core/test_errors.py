"""What foveal says when it is given something it cannot use."""

import os

import numpy as np
import pytest
import torch

from foveal.errors import (
    FovealError,
    expect,
    expect_integer,
    expect_plain_file,
    is_integer,
    is_number,
    reading,
    short_repr,
    unknown,
)


def test_the_message_has_what_was_expected_and_what_was_found():
    with pytest.raises(FovealError) as error:
        expect(False, "radius", "at least 0", -3, "give it a sign less")
    assert str(error.value) == "radius: expected at least 0, got -3; give it a sign less"
    with pytest.raises(FovealError) as error:
        expect(False, "radius", "at least 0", -3)
    assert str(error.value) == "radius: expected at least 0, got -3"


def test_nothing_is_raised_when_it_holds():
    expect(True, "radius", "at least 0", 3)


def test_it_is_a_value_error():
    assert issubclass(FovealError, ValueError)


@pytest.mark.parametrize(
    ("name", "nearest"), [("locl", "local"), ("LOCAL", "local"), ("casual", "causal"), ("xyz", None)]
)
def test_an_unknown_name_is_answered_with_the_nearest(name, nearest):
    message = str(unknown("mask", name, ["local", "causal"]))
    assert message.startswith(f"no mask is called {name!r}; ")
    assert message.endswith("there are causal, local")
    assert nearest is None or f"the nearest is {nearest!r}" in message


LAYERS = ["Attention", "MultiHead", "Additive", "Encoder", "two_way", "icam-31k", "icam-fast", "icam-fast-pipes"]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("MultiheadAttention", "MultiHead"),
        ("multihead", "MultiHead"),
        ("Multi_Head", "MultiHead"),
        ("TwoWay", "two_way"),
        ("icam31k", "icam-31k"),
        ("icamfast", "icam-fast"),
        ("icam-fast-pips", "icam-fast-pipes"),
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


@pytest.mark.parametrize(
    ("value", "integer", "number"),
    [
        (3, True, True),
        (True, False, False),
        (np.int64(3), True, True),
        (3.0, False, True),
        ("3", False, False),
        (None, False, False),
    ],
)
def test_what_is_a_number(value, integer, number):
    assert (is_integer(value), is_number(value)) == (integer, number)


def test_a_tensor_is_no_size():
    assert not is_integer(torch.tensor(3))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "count: expected at least 1, got 0"),
        (2**31, "count: expected a number below 2³¹, got 2147483648"),
        ("7", "count: expected an integer, at least 1, got '7'"),
        (True, "count: expected an integer, at least 1, got True"),
    ],
)
def test_a_count_that_is_none(value, message):
    with pytest.raises(FovealError) as error:
        expect_integer(value, "count")
    assert str(error.value) == message


def test_what_is_shown_of_a_value_is_short():
    assert len(short_repr("a" * 10_000)) < 200
    assert len(short_repr(list(range(10_000)))) < 200
    assert "\n" not in short_repr("a\nb")


def test_a_pipe_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, got in ((tmp_path / "pipe", "a pipe or a device"), (tmp_path, "a folder")):
        with pytest.raises(FovealError) as error:
            expect_plain_file(path)
        assert str(error.value) == f"{path}: expected a plain file, got {got}"
    with pytest.raises(FovealError, match=r"cannot read .*nowhere: No such file or directory"):
        expect_plain_file(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    expect_plain_file(tmp_path / "file")


def test_what_the_system_refuses_is_one_line():
    with pytest.raises(FovealError, match=r"^cannot read it: Is a directory$"), reading("it"):
        raise IsADirectoryError(21, "Is a directory")
