"""Which reader a name or a path gets, and what a Source says of itself."""

import json
import pickle

import numpy as np
import pytest
from PIL import Image

from foveal.data.read import has_column, read
from foveal.data.source import FileImages, Names, Source
from foveal.errors import FovealError
from foveal.training.recipe import located


def refused(what, **how):
    with pytest.raises(FovealError) as error:
        read(str(what), **how)
    assert "\n" not in str(error.value)
    return str(error.value)


def rows(count, classes="ab", extra=""):
    return "".join(f"{n}.png,{classes[n % len(classes)]}{extra}\n" for n in range(count))


def test_a_csv_a_folder_with_one_and_class_folders(tmp_path):
    (tmp_path / "index.csv").write_text("file,class\n" + rows(41))
    assert read(str(tmp_path), label="class").format == "index.csv"
    assert read(str(tmp_path / "index.csv"), label="class").name == tmp_path.name
    (tmp_path / "labels.csv").write_text("file,label\n" + rows(43))
    assert read(str(tmp_path)).format == "labels.csv"
    assert len(read(str(tmp_path))) == 43
    for name in ("labels.csv", "index.csv"):
        (tmp_path / name).unlink()
    (tmp_path / "mine.csv").write_text("file,label\n" + rows(47))
    assert read(str(tmp_path)).format == "mine.csv"
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        Image.new("L", (3, 5)).save(tmp_path / name / "0.png")
    (tmp_path / "other.csv").write_text("two tables: which?")
    assert read(str(tmp_path)).format == "class folders"
    assert "is read as class folders" in refused(tmp_path, label="class")


def class_folders(folder, counts=(3, 5)):
    for name, count in zip("xy", counts, strict=True):
        (folder / name).mkdir()
        for number in range(count):
            Image.new("L", (3, 5)).save(folder / name / f"{number}.png")


def test_a_csv_beside_class_folders_is_somebody_s_list(tmp_path):
    class_folders(tmp_path)
    (tmp_path / "found.csv").write_text("file,found\nx/0.png,y\ny/0.png,x\n")
    source = read(str(tmp_path))
    assert source.format == "class folders"
    assert source.notes[0] == "the class folders are read; to read found.csv, name that file itself"
    assert "is read as class folders, got found; to read found.csv" in refused(tmp_path, label="found")
    assert "is read as class folders, got found; to read found.csv" in refused(tmp_path, fold_column="found")
    assert read(str(tmp_path / "found.csv"), label="found").format == "found.csv"
    (tmp_path / "found.csv").rename(tmp_path / "labels.csv")
    assert read(str(tmp_path), label="found").format == "labels.csv"
    (tmp_path / "labels.csv").write_text("name,count\nx,3\ny,5\n")
    assert read(str(tmp_path)).format == "class folders"


def test_a_csv_beside_other_folders_is_the_set(tmp_path):
    """Images and masks are no two classes, and neither is one folder, or two without an image."""
    (tmp_path / "frames.csv").write_text("file,label\n" + rows(7))
    for name in ("images", "masks"):
        (tmp_path / name).mkdir()
        Image.new("L", (3, 5)).save(tmp_path / name / "0.png")
    assert read(str(tmp_path)).format == "frames.csv"
    (tmp_path / "images").rename(tmp_path / ".hidden")
    assert read(str(tmp_path)).format == "frames.csv"
    (tmp_path / "notes").mkdir()
    assert read(str(tmp_path)).format == "frames.csv"


def test_a_path_is_found_from_anywhere(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    assert located("photos") == located("./photos") == str(tmp_path.resolve() / "photos")
    for name in ("pipes", "pipes:100", "nowhere"):
        assert located(name) == name


def test_which_sets_have_a_column(tmp_path):
    (tmp_path / "labels.csv").write_text("file,label,campaign\n" + rows(3, extra=",1"))
    assert has_column(str(tmp_path), "campaign")
    assert has_column(str(tmp_path / "labels.csv"), "campaign")
    assert not has_column(str(tmp_path), "city")
    assert not has_column("pipes:9", "campaign")
    assert not has_column(str(tmp_path / "nowhere"), "campaign")
    assert "rendered pipes have no columns" in refused("pipes:9", fold_column="campaign")


def test_what_cannot_be_read_is_reported(tmp_path, monkeypatch):
    (tmp_path / "labels.csv").write_text("file,label\n" + rows(3))

    def no(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    for place in ("read_bytes", "exists"):
        with monkeypatch.context() as patch:
            patch.setattr(f"pathlib.Path.{place}", no)
            assert refused(tmp_path).startswith(f"cannot read {tmp_path}")


def test_a_class_with_one_image_is_reported(tmp_path):
    class_folders(tmp_path, (1, 20))
    assert read(str(tmp_path)).notes[1:] == ("classes with too few images to be in train, val and test: x (1)",)
    lines = "".join(f"{n}.png,{'a' if n == 7 else 'b'},train\n" for n in range(20))
    (tmp_path / "labels.csv").write_text("file,label,split\n" + lines)
    assert read(str(tmp_path)).notes[1:] == ("classes with too few images to be in train and val: a (1)",)


def test_what_is_no_set(tmp_path):
    assert "got nothing there" in refused(tmp_path / "nowhere")
    Image.new("L", (3, 5)).save(tmp_path / "a.png")
    assert "expected a folder or a csv file, got a file of kind .png" in refused(tmp_path / "a.png")


def test_a_split_that_nobody_gave(tmp_path):
    (tmp_path / "labels.csv").write_text("file,label\n" + rows(200))
    source = read(str(tmp_path))
    assert [len(source.indices(split)) for split in ("train", "val", "test")] == [140, 30, 30]
    assert source.notes == ("no split was given: divided 70% · 15% · 15%, seed 0",)
    assert (source.split == read(str(tmp_path)).split).all()
    assert (source.split != read(str(tmp_path), seed=1).split).any()
    assert len(read(str(tmp_path), split=(0.5, 0.25, 0.25)).indices("train")) == 100
    assert (read(str(tmp_path), split=None).split == -1).all()


def test_folds_decide_where_there_is_no_split(tmp_path):
    (tmp_path / "labels.csv").write_text("file,label,fold\n" + "".join(f"{n}.png,{n % 2},{n % 5}\n" for n in range(35)))
    source = read(str(tmp_path))
    for split in ("train", "val", "test"):
        assert (source.indices(split) == source.indices(split, 0)).all()
    assert len(source.indices("train")) == 21


def test_val_is_taken_from_train_and_test_is_left_alone(tmp_path):
    lines = "".join(f"{n}.png,{n % 2},{'test' if n < 30 else 'train'},g{n // 3}\n" for n in range(130))
    (tmp_path / "labels.csv").write_text("file,label,split,group\n" + lines)
    source = read(str(tmp_path))
    assert source.indices("test").tolist() == list(range(30))
    assert len(source.indices("val")) == pytest.approx(15, abs=3)
    assert not set(source.group[source.indices("val")]) & set(source.group[source.indices("train")])
    assert "no val was given" in source.notes[-1]


def test_facts_are_plain_and_a_source_travels(tmp_path):
    (tmp_path / "labels.csv").write_text("file,label\n" + rows(20, "abc"))
    source = read(str(tmp_path))
    facts = json.loads(json.dumps(source.facts()))
    assert facts["classes"] == ["a", "b", "c"]
    assert sum(facts["splits"][split]["images"] for split in ("train", "val", "test")) == facts["images"] == 20
    assert sum(facts["splits"][split]["classes"]["c"] for split in ("train", "val", "test")) == 6
    other = pickle.loads(pickle.dumps(source))
    assert (other.labels == source.labels).all()
    assert other.file(19) == "19.png"


def test_a_source_holds_together():
    images = FileImages("/", Names.of(["a", "b", "c"]))
    with pytest.raises(FovealError, match="labels: expected 3 rows"):
        Source("x", "y", ("p", "q"), True, np.zeros((3, 3), np.uint8), np.zeros(3, np.int8), images)
    with pytest.raises(FovealError, match="split: expected 3 values"):
        Source("x", "y", ("p", "q"), False, np.zeros(3, np.int64), np.zeros(2, np.int8), images)


def test_unknown_labels_count_for_nothing():
    images = FileImages("/", Names.of(["a", "b", "c", "d"]))
    source = Source("x", "y", ("p", "q"), False, np.array([1, -1, 0, 1]), np.array([0, 0, 1, 2], np.int8), images)
    assert source.counts().tolist() == [1, 2]
    assert source.known().tolist() == [True, False, True, True]
    assert source.describe() == "x: y, 2 classes (p 1, q 2), train 2 · val 1 · test 1, 1 without a label"


def test_names_are_kept_whatever_they_are():
    names = ["", "a", "ü/β.png", "odd\udcff", "b" * 997]
    kept = Names.of(names)
    assert [kept[index] for index in range(len(kept))] == names
