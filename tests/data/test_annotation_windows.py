"""Windows of annotated images: where they lie, what they are called, and that a classifier's reader takes them.

The pixel in column x and row y of an image is (x, y, number of the image), so that a window says where it was cut.
"""

import csv

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image

from foveal.app import cli
from foveal.data.annotated import AnnotatedImage, AnnotatedSet, Finding, of_mask
from foveal.data.annotations import coco, format_named, format_of, formats, readable, windows
from foveal.data.read_any import read_annotated, read_any
from foveal.data.source import FileImages, Names
from foveal.data.write_annotated import write_annotated
from foveal.errors import FovealError
from tests.oracle import annotated_windows as oracle

CLASSES = ("crack", "hole, large", "spür")


def a_set(folder, sizes, findings, splits=None, groups=None, classes=CLASSES):
    """Images 0.png, 1.png, … of these heights and widths; findings: (label, box) of each."""
    folder.mkdir(parents=True)
    files = [f"{number}.png" for number in range(len(sizes))]
    for number, (high, wide) in enumerate(sizes):
        pixels = np.full((high, wide, 3), number, np.uint8)
        pixels[..., 1], pixels[..., 0] = np.mgrid[:high, :wide]
        Image.fromarray(pixels).save(folder / files[number])
    items = [
        AnnotatedImage(file, *size, tuple(Finding(label, box) for label, box in found), split, group)
        for file, size, found, split, group in zip(
            files, sizes, findings, splits or [-1] * len(sizes), groups or [""] * len(sizes), strict=True
        )
    ]
    return AnnotatedSet("set", "test", classes, items, FileImages(str(folder), Names.of(files)))


def cut(annotated, folder):
    """Notes, and of each window its row, the number of its image, x, y and its side."""
    notes = write_annotated(annotated, "windows", folder).notes
    found = []
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            pixels = np.array(Image.open(folder / row["file"]))
            x, y, number = pixels[0, 0].tolist()
            side = len(pixels)
            rows, columns = np.mgrid[y : y + side, x : x + side]  # nothing is resampled, and nothing lies outside
            assert (pixels == np.stack([columns, rows, np.full_like(rows, number)], -1)).all()
            found.append((row, number, x, y, side))
    return notes, found


def cut_or_none(annotated, folder):
    try:
        return cut(annotated, folder)
    except FovealError as error:
        if "can show at least 70%, got none" not in str(error):
            raise
        return (), []


def labels_in(row):
    return {label for label, name in enumerate(CLASSES, 1) if row[name] == "1"}


def test_two_findings_worked_by_hand(tmp_path):
    """Longer sides 20 and 20: twice the median is 40, and 48 is as near as 32. Each is alone in its two windows."""
    boxes = [(1, (30.0, 30.0, 50.0, 40.0)), (3, (150.0, 170.0, 160.0, 190.0))]
    annotated = a_set(tmp_path / "set", [(200, 190)], [boxes])
    notes, found = cut(annotated, tmp_path / "out")
    assert notes == (
        "10 windows of 48×48 pixels, 6 without a finding",
        "findings: median of the longer side 20 pixels, 100% fit whole into a window",
    )
    assert [row["file"] for row, *_ in found] == [f"images/0-{number}.png" for number in range(10)]
    assert list(found[0][0]) == ["file", "group", *CLASSES]
    assert {row["group"] for row, *_ in found} == {"0.png"}
    assert [labels_in(row) for row, *_ in found] == [{1}, {1}, {3}, {3}, *([set()] * 6)]
    for (_, _, x, y, side), (centre, middle) in zip(
        found[:4], [(40, 35), (40, 35), (155, 180), (155, 180)], strict=True
    ):
        assert abs(x + side / 2 - centre) <= 0.2 * side + 0.5 or x in (0, 190 - side)
        assert abs(y + side / 2 - middle) <= 0.2 * side + 0.5 or y in (0, 200 - side)
    assert (found[0][2], found[0][3]) != (found[1][2], found[1][3])
    for _, _, x, y, side in found[4:]:
        for _, (x0, y0, x1, y1) in boxes:
            assert x + side < x0 or x > x1 or y + side < y0 or y > y1


@pytest.mark.parametrize(
    ("box", "shown"),
    [
        ((0, 0, 10, 10), True),
        ((25, 0, 35, 10), True),  # 7 of 10 columns
        ((26, 0, 36, 10), None),  # 6 of 10 columns
        ((-17, 0, 3, 10), None),  # 3 of 20 columns
        ((-18, 0, 3, 10), False),  # 3 of 21 columns
        ((32, 0, 40, 10), False),
        ((-60, -60, 60, 60), None),  # 7 % of it, but all of the window
    ],
)
def test_which_findings_a_window_shows(box, shown):
    found = windows.findings_in(np.array([box, (8, 8, 9, 9)], np.float64), 0, 0, 32)
    assert (found is None) == (shown is None)
    assert found is None or found.tolist() == [shown, True]


@pytest.mark.parametrize(
    ("lengths", "shortest", "side"),
    [
        ([3], 640, 32),  # the least
        ([20], 640, 48),  # 40 is between 32 and 48
        ([23], 640, 48),
        ([40], 79, 64),  # 80 is larger than the image
        ([40], 20, 32),  # which leaves that image out
        ([30] * 9 + [300], 640, 64),  # 90 % fit
        ([30] * 8 + [100, 300], 640, 112),  # 80 % do not
    ],
)
def test_the_side(lengths, shortest, side):
    assert windows.side_of(lengths, shortest) == oracle.side(lengths, shortest) == side


@given(st.lists(st.integers(1, 4000).map(lambda eighths: eighths / 8), min_size=1, max_size=40), st.integers(1, 700))
def test_the_side_is_the_oracle_s(lengths, shortest):
    assert windows.side_of(lengths, shortest) == oracle.side(lengths, shortest)


@st.composite
def annotations(draw):
    """Of up to four images their sizes and findings; splits and groups, or neither."""
    sizes = draw(st.lists(st.tuples(st.integers(20, 130), st.integers(20, 150)), min_size=1, max_size=4))
    findings = []
    for high, wide in sizes:
        boxes = []
        for _ in range(draw(st.integers(0, 4))):
            x, y = draw(st.integers(-5, wide + 3)), draw(st.integers(-5, high + 3))
            along, down = draw(st.integers(0, 60)), draw(st.integers(0, 60))
            boxes.append((draw(st.integers(1, 3)), (float(x), float(y), x + along + 0.5, float(y + down))))
        findings.append(boxes)
    given_ = draw(st.booleans())
    splits = [number % 3 for number in range(len(sizes))] if given_ else [-1] * len(sizes)
    groups = [f"pipe {number % 3}" if given_ and number else "" for number in range(len(sizes))]
    return sizes, findings, splits, groups


SMALL = ([(20, 40), (90, 70)], [[(2, (3.0, 3.0, 9.0, 9.0))], [(1, (4.0, 5.0, 30.0, 24.0))]], [-1, -1], ["", ""])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(what=annotations())
@example(what=SMALL)  # an image that is smaller than a window
def test_windows_are_as_the_rules_say(tmp_path_factory, what):
    sizes, findings, splits, groups = what
    place = tmp_path_factory.mktemp("windows")
    annotated = a_set(place / "set", sizes, findings, splits, groups)
    clipped = [
        [
            (label, (max(x0, 0), max(y0, 0), min(x1, wide), min(y1, high)))
            for label, (x0, y0, x1, y1) in boxes
            if oracle.area(max(x0, 0), max(y0, 0), min(x1, wide), min(y1, high))
        ]
        for boxes, (high, wide) in zip(findings, sizes, strict=True)
    ]
    lengths = [max(x1 - x0, y1 - y0) for boxes in clipped for _, (x0, y0, x1, y1) in boxes]
    if not lengths:
        with pytest.raises(FovealError, match="expected findings to cut windows around, got none"):
            cut(annotated, place / "out")
        return
    notes, found = cut_or_none(annotated, place / "out")
    side = oracle.side(lengths, min(min(size) for size in sizes))
    if not found:  # each window that shows a finding shows a part of another, or every finding is larger
        assert not (place / "out").exists()
        return
    assert notes[0].startswith(f"{len(found)} window{'s' if len(found) > 1 else ''} of {side}×{side} pixels")
    assert len({(number, x, y) for _, number, x, y, _ in found}) == len(found)
    for number, (size, boxes) in enumerate(zip(sizes, clipped, strict=True)):
        of_image = [one for one in found if one[1] == number]
        assert len(of_image) <= 2 * len(boxes) + 6
        assert not of_image or min(size) >= side
    for row, number, x, y, length in found:
        high, wide = sizes[number]
        assert length == side
        assert x + side <= wide
        assert y + side <= high
        assert labels_in(row) == oracle.shown(clipped[number], x, y, side)
        assert row["group"] == (groups[number] or f"{number}.png")
        assert row.get("split", "") == ("" if splits[number] < 0 else ("train", "val", "test")[splits[number]])
    small = sum(min(size) < side for size in sizes)
    assert any("smaller than a window" in note for note in notes) == bool(small)
    flat = sum(map(len, findings)) - sum(map(len, clipped))
    assert any("no area in the image" in note for note in notes) == bool(flat)
    source = read_any(str(place / "out"))
    assert source.classes == CLASSES
    assert len(source) == len(found)
    for group in np.unique(source.group):
        assert len(set(source.split[source.group == group].tolist())) == 1


def test_the_same_data_give_the_same_files(tmp_path):
    findings = [[(1, (40.0, 40.0, 55.0, 61.0)), (2, (90.0, 20.0, 99.0, 30.0))]] * 2
    for name in "ab":
        cut(a_set(tmp_path / name / "set", [(130, 120)] * 2, findings), tmp_path / name / "out")
    first, second = files_of(tmp_path / "a/out"), files_of(tmp_path / "b/out")
    assert first == second
    assert len(first) > 10


def files_of(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_windows_of_an_image_are_its_own_whatever_else_is_in_the_set(tmp_path):
    found = [[(1, (40.0, 40.0, 55.0, 61.0))]]
    alone = cut(a_set(tmp_path / "one", [(130, 120)], found), tmp_path / "a")[1]
    both = cut(a_set(tmp_path / "two", [(130, 120)] * 2, found * 2), tmp_path / "b")[1]
    assert [one[2:] for one in both if one[1] == 0] == [one[2:] for one in alone]
    assert [one[2:] for one in both if one[1] == 1] != [one[2:] for one in alone]


def test_splits_are_made_for_groups_where_none_are_given(tmp_path):
    findings = [[(1 + number % 3, (40.0, 40.0, 50.0, 52.0))] for number in range(12)]
    cut(a_set(tmp_path / "set", [(100, 90)] * 12, findings), tmp_path / "out")
    source = read_any(str(tmp_path / "out"))
    assert "no split was given: divided" in source.summary()
    images = {}
    for index in range(len(source)):
        images.setdefault(source.file(index).partition("-")[0], set()).add(int(source.split[index]))
    assert len(images) == 12
    assert all(len(splits) == 1 for splits in images.values())
    assert set.union(*images.values()) == {0, 1, 2}


def test_outlines_and_run_lengths_count_by_their_box(tmp_path):
    annotated = a_set(tmp_path / "set", [(90, 100)], [[]])
    mask = np.zeros((90, 100), bool)
    mask[20:30, 30:36], mask[29, 30:50] = True, True
    items = [AnnotatedImage("0.png", 90, 100, (of_mask(2, mask), of_mask(1, np.zeros_like(mask))))]
    notes, found = cut(AnnotatedSet("set", "test", CLASSES, items, annotated.images), tmp_path / "out")
    assert "findings: median of the longer side 20 pixels" in notes[1]
    assert "1 finding left out: no area in the image" in notes
    for row, _, x, y, side in found:
        assert labels_in(row) == oracle.shown([(2, (30, 20, 50, 30))], x, y, side)


def test_it_can_be_written_only(tmp_path, capsys):
    assert "windows" in formats()
    assert "windows" not in readable()
    assert format_named("windows") is windows
    with pytest.raises(FovealError, match="expected a format that can be read, got windows, which is written only"):
        format_named("windows", to_read=True)
    with pytest.raises(FovealError, match="no format of annotations is called 'window'") as error:
        format_named("window", to_read=True)
    assert "windows" not in str(error.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FovealError, match=r"or one of coco, .*, yolo, got none of them") as error:
        format_of(tmp_path / "empty")
    assert "windows" not in str(error.value)
    assert cli.main(["data", "--help"]) == 0
    assert "windows" in capsys.readouterr().out


def test_the_command(tmp_path, capsys):
    findings = [[(1, (20.0, 20.0, 30.0, 35.0))], [(2, (50.0, 40.0, 60.0, 50.0))], []]
    coco.write(a_set(tmp_path / "set", [(100, 90)] * 3, findings, [0, 1, 2]), tmp_path / "coco")
    words = ["data", str(tmp_path / "coco"), "--to", "windows", "--out", str(tmp_path / "out")]
    assert cli.main(words) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines() == [
        f"{tmp_path / 'out'}: windows, 3 images, 3 classes",
        "  22 windows of 32×32 pixels, 18 without a finding",
        "  findings: median of the longer side 12 pixels, 100% fit whole into a window",
    ]
    assert cli.main(["data", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.splitlines()[0] == (
        "out: labels.csv, 3 classes, several labels per image (crack 2, hole, large 2, spür 0, none 18), "
        "train 8 · val 8 · test 6, 3 groups"
    )
    assert cli.main(["data", str(tmp_path / "coco"), "--from", "windows", "--to", "coco", "--out", "x"]) == 2
    err = capsys.readouterr().err
    assert err == "foveal: error: expected a format that can be read, got windows, which is written only\n"


def test_splits_groups_and_folds_of_label_maps(tmp_path):
    for number in range(3):
        label_map = np.zeros((70, 80), np.uint8)
        label_map[20:30, 20 + number : 35] = 1
        for folder, pixels in (("images", np.zeros((70, 80, 3), np.uint8)), ("masks", label_map)):
            (tmp_path / "s" / folder).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(tmp_path / "s" / folder / f"{number}.png")
    rows = [f"images/{number}.png,masks/{number}.png,{number},pipe {number}" for number in range(3)]
    (tmp_path / "s/index.csv").write_text("\n".join(["file,mask,fold,group", *rows, ""]))
    assert (
        write_annotated(read_annotated(str(tmp_path / "s")), "windows", tmp_path / "out").notes[-1].startswith("find")
    )
    source = read_any(str(tmp_path / "out"))
    assert source.folds == 3
    assert len(np.unique(source.group)) == 3
    assert all(source.fold[index] == int(source.file(index).partition("/")[2][0]) for index in range(len(source)))


BOX = (1, (20.0, 20.0, 30.0, 35.0))


@pytest.mark.parametrize(
    ("findings", "given_", "message"),
    [
        ([[], []], {}, "set: expected findings to cut windows around, got none"),
        ([[(1, (95.0, 0.0, 99.0, 9.0))], []], {}, "set: expected findings to cut windows around, got none"),
        ([[BOX], []], {"classes": ()}, "set: expected classes of findings, got none"),
        ([[BOX], []], {"classes": ("Label",)}, "expected none called file, split, fold, group, label, labels, mask"),
        ([[BOX], []], {"classes": ("a;b",)}, "and no semicolon"),
        (
            [[BOX], []],
            {"splits": [0, 1], "groups": ["p", "p"]},
            "set: expected all images of a group in one split, got the group p in two",
        ),
        (
            [[(1, (0.0, 0.0, 90.0, 100.0))] * 3, [(1, (0.0, 0.0, 90.0, 90.0))]],
            {"sizes": [(100, 90), (20, 20)]},
            "set: expected findings of which a window of 32×32 pixels can show at least 70%, got none",
        ),
    ],
)
def test_what_cannot_be_cut(tmp_path, findings, given_, message):
    annotated = a_set(tmp_path / "set", **({"sizes": [(100, 90)] * 2, "findings": findings} | given_))
    with pytest.raises(FovealError) as error:
        write_annotated(annotated, "windows", tmp_path / "out")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_images_that_are_missing_or_of_another_size(tmp_path):
    annotated = a_set(tmp_path / "set", [(100, 90)] * 2, [[BOX], []])
    Image.fromarray(np.zeros((50, 45, 3), np.uint8)).save(tmp_path / "set/1.png")
    with pytest.raises(
        FovealError, match=r"1\.png: annotated is 90×100, but its image 45×50, the same shape in another"
    ):
        write_annotated(annotated, "windows", tmp_path / "out")
    (tmp_path / "set/1.png").unlink()
    with pytest.raises(FovealError, match=r"1\.png"):
        write_annotated(annotated, "windows", tmp_path / "out")
    assert not (tmp_path / "out").exists()
