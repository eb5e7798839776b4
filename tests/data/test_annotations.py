"""Formats of annotations: what is written is read again, pixel by pixel; what a format has no place for is told."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from foveal.data.annotated import AnnotatedImage, AnnotatedSet, Finding, findings_of, of_mask
from foveal.data.annotated_maps import segments_of
from foveal.data.annotations import format_named, format_of, formats, readable
from foveal.data.segments import read_segments
from foveal.data.source import FileImages, Names
from foveal.errors import FovealError

CLASSES = ("crack", "hole, large", "ünder cut")
WRITTEN = sorted(readable())  # what is written and read again
MAPS = ("label-maps", "grey-maps", "colour-maps", "voc")  # formats that have a label map for each image
CALLED = {"grey-maps": "label-maps", "colour-maps": "label-maps", "coco-rle": "coco"}  # what reads them

maps = st.lists(
    st.tuples(st.integers(1, 11), st.integers(1, 13)).flatmap(
        lambda size: arrays(np.uint8, size, elements=st.sampled_from([0, 0, 0, 1, 1, 2, 3]))
    ),
    min_size=1,
    max_size=3,
)


def a_set(folder, label_maps, items=None, splits=None):
    """Images of noise with these label maps."""
    folder.mkdir(parents=True)
    files = [f"{number}.png" for number in range(len(label_maps))]
    for number, label_map in enumerate(label_maps):
        noise = np.random.default_rng(number).integers(0, 256, (*label_map.shape, 3), np.uint8)
        Image.fromarray(noise).save(folder / files[number])
    splits = splits or [number % 3 for number in range(len(label_maps))]
    items = items or [
        AnnotatedImage(file, *one.shape, findings_of(one), split, given=one)
        for file, one, split in zip(files, label_maps, splits, strict=True)
    ]
    return AnnotatedSet("set", "test", CLASSES, items, FileImages(str(folder), Names.of(files)))


def written(name, annotated, folder):
    notes = formats()[name].write(annotated, folder)
    assert format_of(folder) is formats()[CALLED.get(name, name)]
    return notes


@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(label_maps=maps)
@example(label_maps=[np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], np.uint8)])  # a hole
@example(label_maps=[np.array([[1, 0], [0, 1]], np.uint8), np.array([[3]], np.uint8)])  # a corner; one pixel
def test_label_maps_come_back(tmp_path_factory, name, label_maps):
    if not any(one.any() for one in label_maps):
        label_maps = [*label_maps, np.array([[2]], np.uint8)]
    place = tmp_path_factory.mktemp("trip")
    annotated = a_set(place / "set", label_maps)
    assert written(name, annotated, place / "out") == []
    source = read_segments(str(place / "out"), split=None)
    assert source.classes == CLASSES
    stems = [Path(source.file(index)).stem for index in range(len(source))]
    assert sorted(stems) == [str(number) for number in range(len(label_maps))]
    for index, stem in enumerate(stems):
        number = int(stem)
        assert (source.label_map(index) == label_maps[number]).all()
        assert source.split[index] == number % 3
        assert (source.image(index) == np.array(Image.open(place / "set" / f"{number}.png"))).all()


def images_of(folder, *sizes):
    """Empty images 0.png, 1.png, … of these heights and widths."""
    for number, (height, width) in enumerate(sizes):
        (folder / f"{number}.png").parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((height, width, 3), np.uint8)).save(folder / f"{number}.png")
    return folder


def read(path):
    return format_of(path).read(path, "set")


def refused(path):
    with pytest.raises(FovealError) as error:
        segments_of(read(path))
    assert "\n" not in str(error.value)
    return str(error.value)


SQUARE = np.array([(1, 1), (5, 1), (5, 4), (1, 4)], np.float64)
OVER = np.zeros((7, 11), np.uint8)
OVER[1:4, 1:5], OVER[2:6, 3:9] = 1, 2


def overlapping():
    """A large finding, and a smaller one that is drawn before it: of the order the formats differ."""
    small, large = Finding(1, (1, 1, 5, 4), (SQUARE,)), Finding(2, (3, 2, 9, 6), (np.array(corners(3, 2, 9, 6)),))
    return (small, large)


def corners(x0, y0, x1, y1):
    return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]


@pytest.mark.parametrize("name", WRITTEN)
def test_findings_that_lie_over_each_other(tmp_path, name):
    items = [AnnotatedImage("0.png", 7, 11, overlapping(), 0)]
    assert (items[0].label_map == OVER).all()
    notes = written(name, a_set(tmp_path / "set", [OVER], items), tmp_path / "out")
    shown = read_segments(str(tmp_path / "out"), split=None).label_map(0)
    if name in MAPS:
        assert notes == [
            "1 image with findings that lie over each other, of which a label map shows the upper one",
        ]
        assert (shown == OVER).all()
    elif name in ("labelme", "cvat"):  # they say what lies above
        assert (shown == OVER).all()
    else:  # the smaller one lies above
        smaller = OVER.copy()
        smaller[1:4, 1:5] = 1
        assert (shown == smaller).all()
    if name not in MAPS:
        found = read(tmp_path / "out").items[0].findings
        assert sorted(one.box for one in found) == [pytest.approx(box) for box in ((1, 1, 5, 4), (3, 2, 9, 6))]


@pytest.mark.parametrize("name", ["coco", "coco-rle", "voc", "yolo", "labelme", "cvat"])
def test_boxes_alone(tmp_path, name):
    boxes = [(1.0, 2.0, 5.0, 6.0), (0.0, 0.0, 11.0, 7.0)]
    items = [
        AnnotatedImage("0.png", 7, 11, tuple(Finding(2, box) for box in boxes), 1),
        AnnotatedImage("1.png", 3, 5, (), 0),
    ]
    annotated = a_set(tmp_path / "set", [np.zeros((7, 11), np.uint8), np.zeros((3, 5), np.uint8)], items)
    assert written(name, annotated, tmp_path / "out") == []
    again = {Path(item.file).stem: item for item in read(tmp_path / "out").items}
    assert again["1"].findings == ()
    assert (again["0"].split, again["1"].split) == (1, 0)
    found = sorted(again["0"].findings, key=lambda one: -one.box[0])
    assert [one.box for one in found] == [pytest.approx(box) for box in boxes]
    assert not any(one.outlined for one in found)
    assert refused(tmp_path / "out") == "set: expected findings with outlines or masks, got boxes alone"


def test_boxes_beside_outlines_are_filled(tmp_path):
    findings = (Finding(1, (1, 1, 5, 4), (SQUARE,)), Finding(2, (6, 0, 8, 2)))
    annotated = a_set(tmp_path / "set", [OVER], [AnnotatedImage("0.png", 7, 11, findings)])
    source = segments_of(annotated)
    assert source.notes == ("1 finding without an outline: the box is filled",)
    assert source.areas.tolist() == [[77 - 16, 12, 4, 0, 0]]


@pytest.mark.parametrize("name", ["coco", "coco-rle", "yolo", "labelme", "cvat"])
def test_a_finding_in_parts_with_fractions(tmp_path, name):
    parts = (SQUARE + 0.25, SQUARE + np.array([4.5, 2.75]))
    items = [AnnotatedImage("0.png", 7, 11, (Finding(3, (1.25, 1.25, 9.5, 6.75), parts),), 0)]
    written(name, a_set(tmp_path / "set", [OVER], items), tmp_path / "out")
    (item,) = read(tmp_path / "out").items
    assert len(item.findings) == 1
    assert (item.label_map == items[0].label_map).all()
    assert np.count_nonzero(item.label_map) == 24
    if name in ("coco", "labelme", "cvat"):
        for part, other in zip(item.findings[0].polygons, parts, strict=True):
            assert part.tolist() == other.tolist()


@pytest.mark.parametrize("name", WRITTEN)
def test_masks_as_run_lengths(tmp_path, name):
    mask = np.zeros((7, 11), bool)
    mask[1:6, 2:9] = True
    mask[3, 4] = mask[0, 10] = False
    nothing = Finding(1, (0, 0, 0, 0), (), (77,))
    items = [AnnotatedImage("0.png", 7, 11, (nothing, of_mask(2, mask)), 0)]
    written(name, a_set(tmp_path / "set", [OVER], items), tmp_path / "out")
    assert (read_segments(str(tmp_path / "out"), split=None).label_map(0) == mask * 2).all()


def test_a_finding_s_parts_in_one_polygon():
    apart = Finding(1, (0, 0, 0, 0), (SQUARE, SQUARE + 5))
    over = Finding(1, (0, 0, 0, 0), (SQUARE, SQUARE + 1))
    for one in (apart, over):
        whole = Finding(1, one.box, (one.polygon(12, 14),))
        one_map, other_map = (AnnotatedImage("", 12, 14, (each,)).label_map for each in (one, whole))
        assert (one_map == other_map).all()


@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_format_has_no_place_for_is_told(tmp_path, name):
    label_map = OVER.copy()
    label_map[6, 10] = 255
    items = [AnnotatedImage("0.png", 7, 11, findings_of(label_map), 0, "pipe 7", "2", label_map)]
    notes = written(name, a_set(tmp_path / "set", [label_map], items), tmp_path / "out")
    source = read_segments(str(tmp_path / "out"), split=None)
    assert (source.label_map(0)[6, 10] == 255) == (name in MAPS)
    assert (source.group is not None) == (name not in ("voc", "yolo", "labelme", "cvat"))
    assert (source.fold is not None) == (name in ("label-maps", "grey-maps", "colour-maps"))
    told = {line.partition(" with ")[2].partition(",")[0] for line in notes}
    lost = {"unlabelled pixels"} if name not in MAPS else set()
    lost |= {"a group"} if source.group is None else set()
    lost |= {"a fold"} if source.fold is None else set()
    assert told == lost


def test_images_of_one_name_in_two_folders(tmp_path):
    for folder in ("a", "b"):
        images_of(tmp_path / "set" / folder, (7, 11))
    items = [AnnotatedImage(f"{folder}/0.png", 7, 11, findings_of(OVER), 0) for folder in "ab"]
    images = FileImages(str(tmp_path / "set"), Names.of(item.file for item in items))
    formats()["coco"].write(AnnotatedSet("set", "test", CLASSES, items, images), tmp_path / "out")
    assert [item.file for item in read(tmp_path / "out").items] == ["images/a_0.png", "images/b_0.png"]
    annotated = AnnotatedSet("set", "test", CLASSES, [items[0]] * 2, FileImages(images.root, Names.of(["a/0.png"] * 2)))
    with pytest.raises(FovealError, match="images of different names, got a_0 twice"):
        formats()["coco"].write(annotated, tmp_path / "twice")


def test_voc_s_lists_and_label_maps_that_are_missing(tmp_path):
    annotated = a_set(tmp_path / "set", [OVER] * 4, splits=[0, 1, 2, -1])
    written("voc", annotated, tmp_path / "out")
    assert read_segments(str(tmp_path / "out"), split=None).split.tolist() == [0, 1, 2, -1]
    (tmp_path / "out/SegmentationClass/1.png").unlink()
    assert len(read_segments(str(tmp_path / "out"), split=None, bad="leave_out")) == 3
    with (tmp_path / "out/ImageSets/Segmentation/test.txt").open("a") as file:
        file.write("0\n")
    with pytest.raises(FovealError, match=r"test.txt: expected images of one split, got 0, which is in train"):
        read_segments(str(tmp_path / "out"))


def test_every_format_is_told_from_the_others(tmp_path):
    for name in WRITTEN:
        written(name, a_set(tmp_path / name / "set", [OVER]), tmp_path / name / "out")
        claims = {each for each, module in readable().items() if module.matches(tmp_path / name / "out")}
        assert claims == {CALLED.get(name, name)}
    with pytest.raises(FovealError, match="no format of annotations is called 'coca'; the nearest is 'coco'"):
        format_named("coca")


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("split", [-1, 1, 2])
def test_odd_names_and_sets_of_one_split(tmp_path, name, split):
    files = ["a b.png", "c,d;e.png", "ü.f.png", os.fsdecode(b"g\xff.png")]
    for file in files:
        (tmp_path / "set").mkdir(exist_ok=True)
        Image.fromarray(np.zeros((*OVER.shape, 3), np.uint8)).save(tmp_path / "set" / file)
    items = [AnnotatedImage(file, *OVER.shape, findings_of(OVER), split, given=OVER) for file in files]
    annotated = AnnotatedSet("set", "test", CLASSES, items, FileImages(str(tmp_path / "set"), Names.of(files)))
    written(name, annotated, tmp_path / "out")
    source = read_segments(str(tmp_path / "out"), split=None)
    names = {Path(source.file(index)).name for index in range(len(source))}
    assert names == {"a b.png", "c,d;e.png", "ü.f.png", "g_.png"}
    assert all((source.label_map(index) == OVER).all() for index in range(4))
    assert source.split.tolist() == [0 if name == "yolo" and split < 0 else split] * 4
