"""`foveal predict MODEL photos --out FOLDER`: label maps, overlays, tables and outlines, whole or not at all."""

import csv
import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from tasks.segment.painted import KINDS, a_model, maps, painted
from tasks.segment.read_graph import written

from foveal.app import cli
from foveal.data.annotations import format_of
from foveal.data.segments import read_segments
from foveal.runtime.image_predictor import Problem
from foveal.tasks.segment.options import PredictOptions
from foveal.tasks.segment.overlay import palette
from foveal.tasks.segment.segmenter import segmenter_of
from foveal.tasks.segment.written import LONGEST, Names

A = maps("110000", "110002", "000002", "000000")
RING = maps("111110", "100010", "102010", "100010", "111110")
EMPTY = maps("000", "000")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Photos in folders, two of one name, and a model."""
    monkeypatch.chdir(tmp_path)
    for name, label_map in {"a/1.png": A, "b/1.png": RING, "b/1.bmp": EMPTY, "2.png": A}.items():
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(painted(label_map)).save(tmp_path / "photos" / name)
    written(tmp_path / "m.onnx")
    return tmp_path


def typed(capsys, *words):
    status = cli.main(["predict", "m.onnx", *map(str, words)])
    out, err = capsys.readouterr()
    return SimpleNamespace(status=status, out=out, err=err)


def rows(file):
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def files(folder):
    return sorted(str(one.relative_to(folder)) for one in Path(folder).rglob("*") if one.is_file())


def opened(file):
    with Image.open(file) as image:
        assert image.mode == "P"
        np.testing.assert_array_equal(np.array(image.getpalette()).reshape(-1, 3)[:3], palette()[:3])
        return np.asarray(image)


def test_a_folder_of_results(place, capsys):
    ended = typed(capsys, "photos", "--out", "out")
    assert (ended.status, ended.out) == (0, "")
    assert ended.err.endswith("4 images, all read; wrote out\n")
    names = ["2", "a/1", "b/1", "b/1-2"]
    assert files("out") == sorted(
        ["findings.csv", "index.csv", "label_maps/classes.txt"]
        + [f"{kind}/{name}.png" for kind in ("label_maps", "overlays") for name in names]
    )
    for name, label_map in {"2": A, "a/1": A, "b/1": EMPTY, "b/1-2": RING}.items():
        np.testing.assert_array_equal(opened(place / f"out/label_maps/{name}.png"), label_map)
        with Image.open(place / f"out/overlays/{name}.png") as image:
            assert image.mode == "RGB"
            assert image.width % label_map.shape[1] == 0
    table = rows(place / "out/findings.csv")
    assert [(row["file"], row["class"]) for row in table] == [
        ("photos/2.png", "crack"), ("photos/2.png", "hole"), ("photos/a/1.png", "crack"), ("photos/a/1.png", "hole"),
        ("photos/b/1.bmp", ""), ("photos/b/1.png", "crack"), ("photos/b/1.png", "hole"),
    ]  # fmt: skip
    assert typed(capsys, "photos", "--format", "csv").out == (place / "out/findings.csv").read_text()


def test_what_is_written_is_a_set_to_learn_from(place, capsys):
    typed(capsys, "photos", "--out", "runs/out")
    source = read_segments("runs/out")
    assert source.classes == KINDS
    order = {Path(source.file(index)).name: source.label_map(index) for index in range(len(source))}
    assert [os.path.normpath(f"runs/out/{source.file(index)}") for index in range(len(source))] == [
        "photos/2.png", "photos/a/1.png", "photos/b/1.bmp", "photos/b/1.png",
    ]  # fmt: skip
    np.testing.assert_array_equal(order["2.png"], A)
    assert source.image(1).shape == (*A.shape, 3)


def test_coco(place, capsys):
    typed(capsys, "photos", "--out", "out", "--annotations", "coco")
    facts = json.loads((place / "out/coco.json").read_text())
    assert [(one["id"], one["file_name"], one["height"], one["width"]) for one in facts["images"]] == [
        (1, "2.png", 4, 6), (2, "a/1.png", 4, 6), (3, "b/1.bmp", 2, 3), (4, "b/1.png", 5, 6),
    ]  # fmt: skip
    assert facts["categories"] == [{"id": 1, "name": "crack"}, {"id": 2, "name": "hole"}]
    first = facts["annotations"][0]
    assert (first["id"], first["image_id"], first["category_id"], first["area"]) == (1, 1, 1, 4)
    assert (first["bbox"], first["iscrowd"], first["score"]) == ([0, 0, 2, 2], 0, 1)
    assert sorted(zip(*[iter(first["segmentation"][0])] * 2, strict=True)) == [(0, 0), (0, 2), (2, 0), (2, 2)]
    assert [one["image_id"] for one in facts["annotations"]] == [1, 1, 2, 2, 4, 4]
    (place / "photos/instances_test.json").write_bytes((place / "out/coco.json").read_bytes())
    source = read_segments("photos")  # with the photos they name, they are a set again
    assert source.classes == KINDS
    read = {source.file(index): source.label_map(index) for index in range(len(source))}
    for name, label_map in {"a/1.png": A, "b/1.png": RING, "b/1.bmp": EMPTY}.items():
        np.testing.assert_array_equal(read[name], label_map)


def test_labelme(place, capsys):
    typed(capsys, "photos", "--out", "out", "--annotations", "labelme")
    folder = place / "out/labelme"
    assert files(folder) == ["2.json", "a/1.json", "b/1-2.json", "b/1.json", "labels.txt"]
    facts = json.loads((folder / "b/1-2.json").read_text())
    assert (folder / "b" / facts["imagePath"]).samefile(place / "photos/b/1.png")
    assert (facts["imageHeight"], facts["imageWidth"], facts["imageData"]) == (5, 6, None)
    assert [(shape["label"], shape["shape_type"]) for shape in facts["shapes"]] == [
        ("crack", "polygon"),
        ("hole", "polygon"),
    ]
    annotated = format_of(folder).read(place, "all")  # from where the photos are below
    assert annotated.classes == KINDS
    assert sorted(one.file for one in annotated.items) == [
        "photos/2.png", "photos/a/1.png", "photos/b/1.bmp", "photos/b/1.png",
    ]  # fmt: skip


def test_images_that_cannot_be_read(place, capsys):
    (place / "photos/a/1.png").write_bytes(b"")
    (place / "photos/a/0.png").write_bytes(b"no image")
    ended = typed(capsys, "photos", "--out", "out", "--annotations", "coco")
    assert ended.status == 0
    assert "5 images, 2 could not be read; wrote out" in ended.err
    table = rows(place / "out/findings.csv")
    assert [row["error"] for row in table if row["file"].startswith("photos/a")] == [
        "is not an image, or of a kind that is not read", "is empty (0 bytes)",
    ]  # fmt: skip
    assert [row["file"] for row in rows(place / "out/index.csv")] == [
        "../photos/2.png", "../photos/b/1.bmp", "../photos/b/1.png",
    ]  # fmt: skip
    assert len(json.loads((place / "out/coco.json").read_text())["images"]) == 3


def test_a_stream_is_written_as_it_comes(place):
    """A label map is there as soon as its image is answered; the tables, which are one file, at the end."""
    segmenter = segmenter_of(a_model(), PredictOptions(annotations="coco"))
    out = place / "out"
    with segmenter.writer("folder", out, 8) as write:
        for result in segmenter.predict(iter([painted(A), "photos/gone.png", painted(RING)])):
            write(result)
            if result.file == "image 0":
                assert [one for one in files(out) if not Path(one).name.startswith((".", "tmp"))] == [
                    "label_maps/classes.txt", "label_maps/image 0.png", "overlays/image 0.png",
                ]  # fmt: skip
    assert [row["mask"] for row in rows(out / "index.csv")] == ["label_maps/image 0.png", "label_maps/image 2.png"]
    assert [row["error"] for row in rows(out / "findings.csv")][2] == "no such file"


def test_what_is_interrupted_leaves_no_half_file(place):
    segmenter = segmenter_of(a_model(), PredictOptions(annotations="coco"))

    def interrupted(out, *results):
        with segmenter.writer("folder", out, 8) as write:
            for one in results:
                write(one)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted(place / "out", *segmenter.predict([painted(A)]))
    assert files("out") == ["label_maps/classes.txt", "label_maps/image 0.png", "overlays/image 0.png"]
    with pytest.raises(KeyboardInterrupt):
        interrupted(place / "new")
    assert not (place / "new").exists()


def test_nothing_but_problems(place):
    segmenter = segmenter_of(a_model(), PredictOptions())
    with segmenter.writer("folder", place / "out", 8) as write:
        write(Problem("x", "bad"))
    assert files("out") == ["findings.csv", "index.csv"]


def test_rows_to_a_file(place, capsys):
    assert typed(capsys, "photos", "--out", "f.csv", "--smallest", "4").status == 0
    assert [row["class"] for row in rows(place / "f.csv")] == ["crack", "crack", "", "crack"]
    assert typed(capsys, "photos", "--out", "f", "--format", "jsonl").status == 0
    assert len((place / "f").read_text().splitlines()) == 4
    typed(capsys, "photos", "--out", "runs.2/v1.0")
    assert (place / "runs.2/v1.0/findings.csv").is_file()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("--out", "new.png"),
            "--out: expected a folder, or a name that ends in .csv or .jsonl or .ndjson, got new.png",
        ),
        (("--out", "photos"), "--out: expected another name than what is read"),
        (("--out", "notes"), "cannot write notes"),
        (("--out", "f.csv", "--annotations", "coco"), "--annotations: expected a folder to write them to"),
        (("--annotations", "labelme"), "--annotations: expected a folder to write them to"),
        (("--format", "folder"), "no format is called 'folder'"),
        (("--tile", "100"), "--overlap: expected at most half of the tile's 100 pixels, got 128"),
    ],
)
def test_what_does_not_fit(place, capsys, words, line):
    (place / "notes").write_text("something else")
    before = files(place)
    ended = typed(capsys, "photos", *words)
    assert ended.status == 2
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    assert line in ended.err
    assert files(place) == before


def test_a_folder_without_images(place, capsys):
    (place / "empty").mkdir()
    ended = typed(capsys, "empty", "--out", "out")
    assert ended.status == 2
    assert "empty: expected a folder with images" in ended.err
    assert not (place / "out").exists()


def test_names():
    names = Names(["photos/", "/data"])
    given = {
        "photos/a/1.png": "a/1",
        "photos/a/1.jpg": "a/1-2",
        "photos/A/1.png": "A/1-3",  # as a disk may have it that knows no case
        "photos/a/1-2.png": "a/1-2-2",
        "/data/1.png": "1",
        "elsewhere/1.png": "1-2",
        "../1.png": "1-3",
        "image 7": "image 7",
        "photosets/3.tar.gz": "3.tar",
    }
    assert {file: names.of(file)[0] for file in given} == given
    assert names.of("photos/b/2.png")[1] == "b/2.png"
    long = names.of("photos/" + 300 * "ü" + ".png")[0]
    assert len(os.fsencode(long)) == LONGEST
    assert Names(["."]).of("./x/1.png") == ("x/1", "x/1.png")


def test_names_that_are_no_utf8(place, capsys):
    (place / "odd").mkdir()
    Image.fromarray(painted(A)).save(place / "x.png")
    try:
        (place / "x.png").rename(place / "odd/\udcff.png")
    except OSError:
        pytest.skip("this file system has names in UTF-8 only")
    assert typed(capsys, "odd", "--out", "out", "--annotations", "labelme").status == 0
    assert typed(capsys, "odd", "--out", "out", "--annotations", "coco").status == 0
    assert (place / "out/label_maps/\udcff.png").is_file()
