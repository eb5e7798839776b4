"""What the codes of label maps mean, by a file that names classes and without one."""

import json

import numpy as np
import pytest

from foveal.data.class_names import named_classes, of_names, read_classes
from foveal.data.class_table import meaning_of, voc_palette
from foveal.data.label_maps import packed
from foveal.errors import FovealError


def grey(*values, **counts):
    return {(value, False): counts.get(f"v{value}", 10) for value in values}


def labels(meaning, codes, colour=False):
    return meaning.table.labels(np.array(codes), colour).tolist()


def code(*colour):
    return int(packed(np.array(colour, np.uint8)))


def test_voc_s_colours_by_hand():
    palette = voc_palette()
    assert palette[:4].tolist() == [[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0]]
    assert palette[[8, 15, 20, 255]].tolist() == [[64, 0, 0], [192, 128, 128], [0, 64, 128], [224, 224, 192]]


@pytest.mark.parametrize(
    ("values", "classes", "codes"),
    [
        ((0, 255), ("class 1",), {0: 0, 255: 1, 1: -1}),
        ((0, 1, 255), ("class 1",), {0: 0, 1: 1, 255: 255}),
        ((0, 1, 3), ("class 1", "class 2", "class 3"), {1: 1, 3: 3, 4: -1}),
        ((0, 85, 170, 255), ("class 85", "class 170", "class 255"), {85: 1, 255: 3, 1: -1}),
        ((0,), ("class 1",), {0: 0}),
    ],
)
def test_values_without_names(values, classes, codes):
    meaning = meaning_of(grey(*values), None, None, "here")
    assert meaning.classes == classes
    assert labels(meaning, list(codes)) == list(codes.values())
    assert not meaning.merges
    as_colours = {(value * 0x010101, True): count for (value, _), count in grey(*values).items()}
    meaning = meaning_of(as_colours, None, None, "here")
    assert meaning.classes == classes
    assert labels(meaning, [value * 0x010101 for value in codes], True) == list(codes.values())


def test_soft_edges_are_cut_in_the_middle():
    counts = grey(0, 1, 2, 100, 127, 128, 250, 253, 254, 255, v0=1000, v255=500)
    meaning = meaning_of(counts, of_names(("crack",)), None, "here")
    assert (meaning.classes, meaning.merges) == (("crack",), True)
    assert labels(meaning, [0, 127, 128, 255]) == [0, 0, 1, 1]
    assert meaning_of(grey(0, 1, 254, 255), None, None, "here").merges


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (range(12), 11),
        ((*range(21), 255), 20),  # VOC's classes, and what is unlabelled
        ((*range(91), 255), 90),
        ((0, 36, 73, 109, 146, 182, 219, 255), 7),
    ],
)
def test_classes_are_no_soft_edges(values, classes):
    meaning = meaning_of(grey(*values, v0=100_000), None, None, "here")
    assert (len(meaning.classes), meaning.merges) == (classes, False)


def test_colours_without_names_are_in_voc_s_order():
    colours = {(code(*colour), True): 5 for colour in ((0, 0, 0), (0, 128, 0), (128, 0, 0), (224, 224, 192))}
    meaning = meaning_of(colours, None, None, "here")
    assert meaning.classes == ("class 1", "class 2")
    assert labels(meaning, [code(128, 0, 0), code(0, 128, 0), code(224, 224, 192), 0], True) == [1, 2, 255, 0]
    assert meaning.notes == ("colours: class 1 is (128, 0, 0), class 2 is (0, 128, 0)",)
    many = {(number * 7 + 1, True): 1 for number in range(300)}
    with pytest.raises(FovealError, match="here: expected label maps of at most 254 colours, got 300; name"):
        meaning_of(many, None, None, "here")


NAMES = ("hole", "crack")
TEXTS = {
    "classes.txt": "hole\ncrack\n",
    "labels.txt": "__ignore__\n_background_\nhole\ncrack\n",
    "classes.json": json.dumps(["background", "hole", "crack"]),
    "label_map.txt": "0 background\n2: crack\n1: hole\n",
    "data.yaml": "train: images\nnames: [hole, crack]\n",
}


@pytest.mark.parametrize("file", TEXTS)
def test_files_that_name_classes_in_order(tmp_path, file):
    (tmp_path / file).write_text(TEXTS[file])
    named = named_classes(tmp_path / "nowhere", tmp_path)
    assert named.names == NAMES
    meaning = meaning_of(grey(0, 1, 2, 255), named, None, "here")
    assert labels(meaning, [0, 1, 2, 3, 255]) == [0, 1, 2, -1, 255]


def test_files_that_name_values_and_colours(tmp_path):
    (tmp_path / "classes.json").write_text(json.dumps({"crack": 90, "void": 7, "hole": 30}))
    meaning = meaning_of(grey(0, 30), read_classes(tmp_path / "classes.json"), None, "here")
    assert meaning.classes == NAMES
    assert labels(meaning, [0, 7, 30, 90, 1]) == [0, 255, 1, 2, -1]
    (tmp_path / "classes.json").write_text(json.dumps({"30": "hole", "90": "crack"}))
    assert read_classes(tmp_path / "classes.json").values == {0: 0, 30: 1, 90: 2}
    (tmp_path / "labelmap.txt").write_text("# a comment\nhole:9,8,7::\nbackground:1,2,3::\ncrack:0,0,9:a,b:c\n")
    named = read_classes(tmp_path / "labelmap.txt")
    meaning = meaning_of({(code(9, 8, 7), True): 4}, named, None, "here")
    assert meaning.classes == NAMES
    assert labels(meaning, [code(9, 8, 7), code(1, 2, 3), code(0, 0, 9), 0, 5], True) == [1, 0, 2, 0, -1]
    palette = np.array([(1, 2, 3), (0, 0, 9), (9, 8, 7)], np.uint8)  # numbers of a palette mean their colours
    assert labels(meaning_of(grey(0, 1, 2), named, palette, "here"), [0, 1, 2]) == [0, 2, 1]


def test_values_that_stand_for_the_classes_in_their_order():
    meaning = meaning_of(grey(0, 100, 200), of_names(NAMES), None, "here")
    assert labels(meaning, [0, 100, 200, 1]) == [0, 1, 2, -1]
    assert meaning.notes == ("the values stand for the classes in their order: 100 hole, 200 crack",)
    meaning = meaning_of(grey(0, 255), of_names(("hole",)), None, "here")
    assert (labels(meaning, [0, 255]), meaning.notes) == ([0, 1], ())


@pytest.mark.parametrize(
    ("file", "content", "line"),
    [
        ("classes.json", "{", "expected JSON"),
        ("classes.json", "[" * 100_000, "expected JSON"),
        ("classes.json", '{"a": 1, "b": 1}', "a value or a colour of its own"),
        ("classes.json", '{"a": 256}', "values from 0 to 255"),
        ("classes.json", '{"a": [1, 2]}', "colours as three values"),
        ("classes.json", '{"a": 1.5}', "expected a list of names"),
        ("classes.json", "7", "expected a list of names"),
        ("classes.txt", "background\n", "names of 1 to 254 classes, got 0"),
        ("classes.txt", "".join(f"c{number}\n" for number in range(300)), "names of 1 to 254 classes, got 300"),
        ("classes.txt", "a\n" * 600_000, "at most 1,048,576 bytes"),
        ("classes.txt", b"\xff\xfe", "expected text in UTF-8"),
        ("data.yaml", "names: {a: 1}\n", "expected `names`"),
        ("data.yaml", "names: {0: a, 999999999: b}\n", "expected `names`"),
        ("data.yaml", "names: []\n", "expected `names`"),
        ("data.yaml", "- a\n", "expected `names"),
        ("data.yaml", "a: [", "expected YAML"),
        ("data.yaml", "a: !!python/object/apply:os.system [ls]", "expected YAML"),
        ("labelmap.txt", "a:300,0,0::\n", "colours as three values"),
    ],
)
def test_files_that_name_nothing(tmp_path, file, content, line):
    path = tmp_path / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FovealError) as error:
        read_classes(path)
    assert str(error.value).startswith(str(path))
    assert line in str(error.value)
    assert "\n" not in str(error.value)
