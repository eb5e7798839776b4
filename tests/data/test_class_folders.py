"""Class folders, with and without splits; and what is no such thing."""

import os

import numpy as np
import pytest
from PIL import Image

from foveal.data import source
from foveal.data.class_folders import read_folder
from foveal.data.read import read
from foveal.errors import FovealError


def image(path, value=9):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (5, 3), (value, 0, 0)).save(path)


def refused(root):
    with pytest.raises(FovealError) as error:
        read(str(root))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_classes_without_a_split(tmp_path):
    for number in range(7):
        image(tmp_path / "pipes" / "sound" / f"{number}.PNG", number)
    for number in range(5):
        image(tmp_path / "pipes" / "broken" / "deep" / f"{number}.jpg")
    image(tmp_path / "pipes" / "broken" / ".hidden.jpg")
    image(tmp_path / "pipes" / ".git" / "x.jpg")
    image(tmp_path / "pipes" / "sound" / ".cache" / "x.jpg")
    image(tmp_path / "pipes" / "__MACOSX" / "x.jpg")
    (tmp_path / "pipes" / "sound" / "Thumbs.db").write_text("")
    (tmp_path / "pipes" / "note.txt").write_text("beside the classes")
    source = read_folder(tmp_path / "pipes", "pipes")
    assert source.classes == ("broken", "sound")
    assert source.labels.tolist() == [0] * 5 + [1] * 7
    assert (source.split == -1).all()
    assert source.file(0) == "broken/deep/0.jpg"
    assert source.file(11) == "sound/6.PNG"
    assert source.image(11)[0, 0].tolist() == [6, 0, 0]
    assert source.notes == ("1 file left out: no suffix of an image",)
    assert source.describe() == "pipes: class folders, 2 classes (broken 5, sound 7), in no split 12"
    divided = read(str(tmp_path / "pipes"))
    assert all(len(divided.indices(split)) for split in ("train", "val", "test"))


def test_splits_by_any_of_their_names(tmp_path):
    for split, count in (("training", 5), ("Validation", 3), ("test", 2)):
        for name in ("a", "b"):
            for number in range(count):
                image(tmp_path / split / name / f"{number}.png")
    source = read(str(tmp_path))
    assert [len(source.indices(split)) for split in ("train", "val", "test")] == [10, 6, 4]
    assert source.file(int(source.indices("val")[0])) == "Validation/a/0.png"
    assert not source.notes


@pytest.mark.parametrize("name", ["?", "a;b", "a\nb", "found", "error", " a", os.fsdecode(b"caf\xe9")])
def test_names_that_no_class_can_have(tmp_path, name):
    """Early, and not when hours of training end: a table of predictions has these columns, joins by .

    And marks what has no label with ?.
    """
    image(tmp_path / name / "0.png")
    image(tmp_path / "sound" / "0.png")
    message = refused(tmp_path)
    assert message.endswith("rename the class")
    message.encode()


def test_a_class_may_be_missing_in_one_split(tmp_path):
    for split, name in (("train", "a"), ("train", "b"), ("val", "a"), ("test", "b")):
        image(tmp_path / split / name / "0.png")
    assert np.bincount(read(str(tmp_path)).labels).tolist() == [2, 2]


def test_what_is_no_set(tmp_path):
    assert "no folder inside" in refused(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "x.txt").write_text("")
    assert "2 folders without an image (1 other file)" in refused(tmp_path)
    image(tmp_path / "a" / "0.png")
    assert "none in b" in refused(tmp_path)
    (tmp_path / "b").rmdir()
    assert "the one class a (1 image)" in refused(tmp_path)


def test_splits_beside_classes_and_twice(tmp_path):
    image(tmp_path / "train" / "a" / "0.png")
    image(tmp_path / "odd" / "0.png")
    assert "train beside odd" in refused(tmp_path)
    (tmp_path / "odd").rename(tmp_path / "training")
    assert "one folder for train, got train, training" in refused(tmp_path)


def test_files_that_have_changed_under_their_names_are_noticed_by_their_sizes(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(5):
            (tmp_path / name / f"{number}.png").write_bytes(bytes(number + 1))

    def facts():
        found = read_folder(tmp_path, "set").facts()
        return found["fingerprint"], found["file_sizes"]

    before = facts()
    assert facts() == before
    (tmp_path / "b" / "4.png").write_bytes(bytes(17))
    after = facts()
    assert (after[0], after[1] == before[1]) == (before[0], False)
    images = read_folder(tmp_path, "set").images
    monkeypatch.setattr(source, "ASKED", 3)  # of more than that, every fourth: 0, 4 and 8 of the ten
    some = images.file_sizes()
    (tmp_path / "b" / "4.png").unlink()
    assert images.file_sizes() == some != after[1]
    (tmp_path / "b" / "3.png").unlink()
    assert images.file_sizes() != some
