"""`foveal data` of sets with label maps or annotations, what stays a set of classes, and sets in another format."""

import json

import numpy as np
import pytest
from PIL import Image

from foveal.app import cli
from foveal.data.annotations import coco, readable
from foveal.data.read_any import read_annotated, read_any
from foveal.data.segments import SegmentSource, read_segments
from foveal.data.write_annotated import write_annotated
from foveal.errors import FovealError


def a_set(root, count=6):
    """Images and label maps, of which every third is empty."""
    for number in range(count):
        label_map = np.zeros((19, 31), np.uint8)
        label_map[2:8, 3 : 4 + number] = number % 3
        noise = np.random.default_rng(number).integers(0, 256, (19, 31, 3), np.uint8)
        for folder, pixels in (("images", noise), ("masks", label_map)):
            (root / folder).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(root / folder / f"{number}.png")
    return root


def typed(capsys, *words):
    status = cli.main([str(word) for word in words])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


def test_which_sets_are_of_classes(tmp_path):
    a_set(tmp_path)
    assert isinstance(read_any(str(tmp_path)), SegmentSource)
    with pytest.raises(FovealError, match="at least 2 classes"):
        read_any(str(tmp_path / "images"), what="classes")
    (tmp_path / "labels.csv").write_text("file,label\n" + "".join(f"images/{n}.png,{n % 2}\n" for n in range(6)))
    source = read_any(str(tmp_path))
    assert (source.format, source.classes) == ("labels.csv", ("0", "1"))
    assert isinstance(read_any(str(tmp_path), what="maps"), SegmentSource)
    rows = "".join(f"images/{n}.png,masks/{n}.png,{n % 2}\n" for n in range(6))
    (tmp_path / "labels.csv").write_text("file,mask,kind\n" + rows)
    assert isinstance(read_any(str(tmp_path)), SegmentSource)
    assert read_any(str(tmp_path), label="kind").classes == ("0", "1")
    (tmp_path / "labels.csv").write_text("file,mask,label\n" + rows)
    assert read_any(str(tmp_path)).format == "labels.csv"
    assert not isinstance(read_any(str(tmp_path)), SegmentSource)
    assert read_any("pipes:3").labels.shape == (3, 15)
    assert not isinstance(read_any("pipes:3"), SegmentSource)
    assert isinstance(read_any("pipes:3", what="maps"), SegmentSource)


@pytest.mark.parametrize(("one", "other"), [("photos", "maps"), ("masks", "gt"), ("a", "b")])
def test_class_folders_stay_class_folders(tmp_path, one, other):
    """Whatever they are called, and whatever lies beside them."""
    a_set(tmp_path)
    (tmp_path / "masks").rename(tmp_path / other)
    (tmp_path / "images").rename(tmp_path / one)
    (tmp_path / "instances_all.json").write_text('{"images": [], "annotations": [], "categories": []}')
    (tmp_path / one / "0.json").write_text('{"shapes": []}')
    source = read_any(str(tmp_path))
    assert (source.format, source.classes) == ("class folders", tuple(sorted((one, other))))


def test_what_is_nothing(tmp_path):
    with pytest.raises(FovealError, match="expected pipes, or a folder or a csv file that exists"):
        read_any(str(tmp_path / "nowhere"))
    with pytest.raises(FovealError, match="no kind of labels is called 'mapps'; the nearest is 'maps'"):
        read_any("pipes", what="mapps")
    with pytest.raises(FovealError, match="--label: expected none: classes of label maps"):
        read_any(str(a_set(tmp_path)), what="maps", label="x")
    with pytest.raises(FovealError, match="expected a folder or a file that exists"):
        read_annotated(str(tmp_path / "nowhere"))
    with pytest.raises(FovealError, match="expected a set in the format voc, got another"):
        read_annotated(str(tmp_path), "voc")


def test_the_lines(tmp_path, capsys):
    a_set(tmp_path)
    status, out, err = typed(capsys, "data", tmp_path, "--check")
    assert (status, err) == (0, "")
    assert out[0].startswith(
        f"{tmp_path.name}: label maps, 2 classes, several labels per image (class 1 2, class 2 2, none 2)"
    )
    assert out[1:] == [
        "  no split was given: divided 70% · 15% · 15%, seed 0",
        "  classes with too few images to be in train, val and test: class 1 (2), class 2 (2)",
        "  pixels: background 97.3%, class 2 1.5%, class 1 1.2%",
        "  empty label maps: 33.3%",
        "  findings: 4, median side 5 pixels, a tenth below 4, a tenth above 6",
        "  median side by class: class 2 5, class 1 4",
        "opened 6: 6 good, 0 bad",
        "  kinds: PNG RGB 6",
        "  sizes: 31×19 6",
    ]
    facts = json.loads("\n".join(typed(capsys, "data", tmp_path, "--json")[1]))
    assert facts["properties"]["findings"] == 4
    (tmp_path / "masks/2.png").unlink()
    status, _, err = typed(capsys, "data", tmp_path)
    assert status == 2
    assert "got 1 without: images/2.png has no label map; mend them, or leave them out (--bad leave_out)" in err
    assert typed(capsys, "data", tmp_path, "--bad", "leave_out")[1][1] == (
        "  1 image left out: images/2.png has no label map"
    )


@pytest.mark.parametrize("name", sorted(readable()))
def test_a_set_in_another_format(tmp_path, capsys, name):
    a_set(tmp_path / "s")
    status, out, err = typed(capsys, "data", tmp_path / "s", "--to", name, "--out", tmp_path / "out")
    assert (status, err) == (0, "")
    notes = ["  6 images of no split, written as train"] if name == "yolo" else []
    assert out == [f"{tmp_path / 'out'}: {name}, 6 images, 2 classes", *notes]
    again = read_any(str(tmp_path / "out"))
    before = read_segments(str(tmp_path / "s"))
    files = [again.file(index).rpartition("/")[2] for index in range(6)]
    for index, file in enumerate(files):
        assert (again.label_map(index) == before.label_map(int(file[0]))).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "s"]  # nothing half-written is left


def test_rendered_pipes_in_another_format(tmp_path, capsys):
    assert typed(capsys, "data", "pipes:3:7", "--to", "coco", "--out", tmp_path / "out")[0] == 0
    again, before = read_segments(str(tmp_path / "out")), read_segments("pipes:3:7")
    places = {again.file(index).rpartition("/")[2]: index for index in range(3)}
    for index in range(3):
        place = places[f"{before.file(index)}.png"]
        assert (again.label_map(place) == before.label_map(index)).all()
        assert (again.image(place) == before.image(index)).all()
        assert again.split[place] == before.split[index]


def test_boxes_of_coco(tmp_path, capsys):
    from foveal.data.annotated import AnnotatedImage, AnnotatedSet, Finding

    a_set(tmp_path / "s")
    images = read_segments(str(tmp_path / "s")).images
    items = [
        AnnotatedImage(f"images/{n}.png", 19, 31, (Finding(1 + n % 2, (1, 2, 5 + n, 9)),), n % 3, f"g{n // 2}")
        for n in range(6)
    ]
    coco.write(AnnotatedSet("boxes", "test", ("a", "b"), items, images), tmp_path / "out")
    source = read_any(str(tmp_path / "out"))
    assert (source.format, source.counts().tolist()) == ("COCO, boxes", [3, 3])
    assert len(np.unique(source.group)) == 3
    status, out, _ = typed(capsys, "data", tmp_path / "out", "--check")
    assert status == 0
    assert "  6 boxes without outlines, median side 7 pixels" in out
    assert typed(capsys, "data", tmp_path / "out", "--read", "maps")[2].endswith("boxes alone\n")


def test_what_cannot_be_written(tmp_path, capsys, monkeypatch):
    a_set(tmp_path / "s")
    data = ("data", tmp_path / "s", "--to", "coco")
    assert "expected both or neither, got one of them" in typed(capsys, *data)[2]
    assert "--from: expected --to and --out beside it" in typed(capsys, "data", tmp_path / "s", "--from", "coco")[2]
    assert (
        "expected a new or an empty folder, got one with images in it"
        in typed(capsys, *data, "--out", tmp_path / "s")[2]
    )
    file = tmp_path / "s/images/0.png"
    assert "expected a new or an empty folder, got a file" in typed(capsys, *data, "--out", file)[2]
    assert "no format of annotations is called" in typed(capsys, *data[:2], "--to", "coca", "--out", tmp_path / "o")[2]
    annotated = read_annotated(str(tmp_path / "s"))
    file.unlink()
    with pytest.raises(FovealError, match=r"cannot read .*0\.png: No such file"):
        write_annotated(annotated, "coco", tmp_path / "out")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(coco, "write_file", full)
    a_set(tmp_path / "s")
    with pytest.raises(FovealError, match=r"cannot write .*out: No space left on device; choose another name"):
        write_annotated(annotated, "coco", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s"]
