"""The rendered pipes as a Source: the labels known without drawing are those of the frames that are drawn."""

import pickle

import numpy as np
import pytest

from foveal.data.pipes import KINDS, render
from foveal.data.read import read
from foveal.data.rendered import read_pipes
from foveal.errors import FovealError


def test_labels_are_what_is_drawn():
    source = read("pipes:31:3")
    assert source.classes == KINDS
    assert source.multi_label
    for index in range(31):
        shown = {finding.kind for finding in render(3_000_000 + index, 32).findings}
        assert {kind for kind, there in zip(KINDS, source.labels[index], strict=True) if there} == shown


def test_images_are_the_frames_at_any_size():
    source = read("pipes:5:2")
    assert (source.image(3, 41) == render(2_000_003, 41).image).all()
    assert source.image(3).shape == (224, 224, 3)
    assert source.image(3, 17).shape == (17, 17, 3)  # below what the renderer draws
    assert source.file(3) == "pipe-2000003"
    other = pickle.loads(pickle.dumps(source))
    assert (other.image(4, 37) == source.image(4, 37)).all()


def test_names_and_splits():
    source = read("pipes")
    assert len(source) == 2400
    assert [len(source.indices(split)) for split in ("train", "val", "test")] == pytest.approx([1680, 360, 360], abs=60)
    assert source.describe().startswith("pipes: pipes, ")
    assert not source.notes
    first, again, other = read("pipes:60"), read("pipes:60:0"), read("pipes:60:1")
    assert (first.split == again.split).all()
    assert (first.labels == again.labels).all()
    assert (first.labels != other.labels).any()
    share = source.counts(source.indices("test")) / np.maximum(source.counts(), 1)
    assert np.abs(share - 0.15).max() < 0.1  # about 170 frames show a kind: 3.6 standard deviations


def test_what_a_small_set_tests_on_no_larger_set_trains_on():
    small, large = read("pipes:300"), read("pipes:1600")
    assert (small.split == large.split[:300]).all()


@pytest.mark.parametrize(
    "name", ["pipes:", "pipes:x", "pipes:1:2:3", "pipes:-1", "pipes:0", "pipes:1000001", "pipes:5:9999", "pipes:1.5"]
)
def test_names_that_mean_nothing(name):
    with pytest.raises(FovealError, match="rendered pipes: expected"):
        read_pipes(name)


def test_a_folder_called_pipes_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipes").mkdir()
    with pytest.raises(FovealError, match="no folder inside"):
        read("pipes")
