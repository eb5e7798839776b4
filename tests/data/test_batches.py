"""Batches: images by index, out of a pack or as they are asked for."""

import numpy as np
import pytest
import torch
from data.bad import BAD, spoiled

from foveal.data.batches import Batches, loader
from foveal.data.order import Order
from foveal.data.pack import pack
from foveal.data.read import read
from foveal.runtime.blank import GREY


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return read(str(spoiled(tmp_path_factory.mktemp("set"))))


def test_packed_and_streamed_are_the_same(source):
    packed = pack(source, 13)
    good = packed.keep(np.arange(len(source)))[[5, 0, 3]]
    here, there = Batches(source, 13, packed)[good], Batches(source, 13)[good]
    assert here.images.shape == (3, 3, 13, 13)
    assert here.images.dtype == torch.uint8
    for one, other in zip(here, there, strict=True):
        assert torch.equal(one, other)
    assert here.labels.tolist() == source.labels[good].tolist()
    assert here.labels.dtype == here.index.dtype == torch.int64
    assert here.index.tolist() == good.tolist()
    assert here.good.all()


def test_a_good_one_stands_in_for_a_bad_one(source):
    names = [source.file(index) for index in range(len(source))]
    bad = [names.index(name) for name in sorted(BAD)]
    good = names.index("b/grey.png")
    batch = Batches(source, 13)[np.array([bad[0], good, bad[1], 0])]
    assert batch.good.tolist() == [False, True, False, True]
    assert batch.index.tolist() == [bad[0], good, bad[1], 0]  # by which it is listed
    for place in (0, 2):
        assert torch.equal(batch.images[place], batch.images[1])
        assert batch.labels[place] == source.labels[good]
    assert not torch.equal(batch.images[3], batch.images[1])
    assert source.labels[bad[0]] == 0, "the source's own labels stay"
    nothing = Batches(source, 13)[np.array(bad[:2])]
    assert not nothing.good.any()
    assert not nothing.images.any()


def test_resident_brings_no_images(source):
    batch = Batches(source, 13, pack(source, 13), resident=True)[np.array([3, 1])]
    assert batch.images.numel() == 0
    assert batch.index.tolist() == [3, 1]


def test_blank_is_painted(source):
    batch = Batches(source, 10, blank=((0.0, 0.5, 0.2, 1.0),))[np.array([1])]
    assert (batch.images[0, :, 5:, :2] == GREY).all()
    assert not (batch.images[0, :, :5] == GREY).all()


@pytest.mark.parametrize("workers", [0, 1])
def test_loader(source, workers):
    indices = np.arange(len(source))
    parts = list(loader(Batches(source, 7), Order(indices, 5, shuffle=False), workers))
    assert torch.cat([part.index for part in parts]).tolist() == indices.tolist()
    assert [len(part.index) for part in parts] == [5, 5, 5, 5, 4]
    assert int(torch.cat([part.good for part in parts]).sum()) == len(source) - len(BAD)


def test_several_labels(tmp_path):
    (tmp_path / "labels.csv").write_text("file,x,y,z\n0.png,1,0,1\n1.png,0,0,0\n2.png,0,1,0\n")
    several = read(str(tmp_path / "labels.csv"), split=None)  # the images are missing: labels stay theirs
    labels = Batches(several, 5)[np.array([2, 0])].labels
    assert labels.dtype == torch.float32
    assert labels.tolist() == [[0, 1, 0], [1, 0, 1]]
