"""TensorBoard's curves: written at once where tensorboardX is installed, by no thread that could be waited for."""

import struct
import sys
import threading

from tensorboardX.proto.event_pb2 import Event

from foveal.training.tensorboard import tensorboard


def read(file):
    """The events of a file: each is its length, a checksum, its bytes, and another checksum."""
    content, place, events = file.read_bytes(), 0, []
    while place < len(content):
        (length,) = struct.unpack("<Q", content[place : place + 8])
        events.append(Event.FromString(content[place + 12 : place + 12 + length]))
        place += 16 + length
    return events


def test_numbers_are_there_when_the_call_returns(tmp_path):
    threads = threading.active_count()
    logger = tensorboard(tmp_path / "run")
    assert (logger.name, logger.version) == ("run", "tensorboard")
    logger.log_hyperparams({"lr": 1})
    logger.log_metrics({"loss": 0.5, "val_score": 0.25}, step=3)
    logger.log_metrics({"loss": 0.125}, step=7)
    (file,) = (tmp_path / "run/tensorboard").iterdir()
    found = [(event.step, value.tag, value.simple_value) for event in read(file) for value in event.summary.value]
    assert found == [(3, "loss", 0.5), (3, "val_score", 0.25), (7, "loss", 0.125)]
    assert threading.active_count() == threads
    logger.finalize("interrupted")
    logger.finalize("interrupted")


def test_without_tensorboardx_nothing_is_logged(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    assert tensorboard(tmp_path) is False
