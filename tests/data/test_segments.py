"""Sets of images with label maps: which files belong together, what they mean, what is measured, what is refused."""

import json
import pickle

import numpy as np
import pytest
from PIL import Image

from foveal.data.measured import findings
from foveal.data.rendered import SIZE, label_map_of
from foveal.data.segments import read_segments
from foveal.errors import FovealError
from foveal.runtime.image import BadImage

SQUARE, LINE = np.zeros((23, 29), np.uint8), np.zeros((23, 29), np.uint8)
SQUARE[3:10, 4:11] = 1
LINE[5, 2:27] = 2
LINE[20, 20] = 255
EMPTY = np.zeros((23, 29), np.uint8)


def put(file, pixels, **how):
    file.parent.mkdir(parents=True, exist_ok=True)
    (pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)).save(file, **how)


def noise(number, height=23, width=29):
    return np.random.default_rng(number).integers(0, 256, (height, width, 3), np.uint8)


def folders(root, maps=(SQUARE, LINE, EMPTY) * 4, images="images", masks="masks", ending=""):
    for number, label_map in enumerate(maps):
        put(root / images / f"{number:02}.jpg", noise(number, *np.array(label_map).shape[:2]))
        put(root / masks / f"{number:02}{ending}.png", label_map)
    return root


def refused(what, **how):
    with pytest.raises(FovealError) as error:
        read_segments(str(what), **how)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_folders_of_images_and_label_maps(tmp_path):
    source = read_segments(str(folders(tmp_path)))
    assert source.classes == ("class 1", "class 2")
    assert source.multi_label
    assert source.labels[:3].tolist() == [[1, 0], [0, 1], [0, 0]]
    assert (source.label_map(1) == LINE).all()
    assert source.image(1).shape == (23, 29, 3)
    assert source.areas[:3].tolist() == [[667 - 49, 49, 0, 0], [667 - 26, 0, 25, 1], [667, 0, 0, 0]]
    assert source.sizes.tolist() == [[23, 29]] * 12
    assert [len(source.indices(split)) for split in ("train", "val", "test")] == [7, 2, 3]
    other = pickle.loads(pickle.dumps(source))
    assert (other.label_map(0) == SQUARE).all()
    assert other.fingerprint() == source.fingerprint()


@pytest.mark.parametrize(
    ("images", "masks", "ending"),
    [
        ("train/images", "train/masks", ""),
        ("images/train", "annotations/training", ""),
        ("train_img", "train_lab", ""),
        ("train", "train", "_mask"),
        ("train", "train", "_GT"),
        ("train/input", "train/ground_truth", "_label"),
    ],
)
def test_layouts(tmp_path, images, masks, ending):
    folders(tmp_path, images=images, masks=masks, ending=ending)
    folders(
        tmp_path, (LINE,), images.replace("train", "test"), masks.replace("train", "test").replace("ing", ""), ending
    )
    source = read_segments(str(tmp_path), split=None)
    assert [len(source.indices(split)) for split in ("train", "val", "test")] == [12, 0, 1]
    assert (source.label_map(int(source.indices("test")[0])) == LINE).all()


def test_label_maps_of_all_splits_in_one_folder(tmp_path):
    folders(tmp_path, images="images/val")
    assert (read_segments(str(tmp_path), split=None).split == 1).all()


def a_csv(tmp_path, header="file,mask,split,group,class", rows=None):
    folders(tmp_path, images="pictures", masks="maps")
    kinds = ("square", "line", "good")
    rows = rows or [
        f"pictures/{n:02}.jpg,{'' if n % 3 == 2 else f'maps/{n:02}.png'},{('train', 'val', 'test')[n // 4]},g{n // 2},"
        f"{kinds[n % 3]}"
        for n in range(12)
    ]
    (tmp_path / "index.csv").write_text("\n".join([header, *rows]) + "\n")
    return tmp_path


def test_a_csv_names_label_maps_splits_groups_and_classes(tmp_path):
    source = read_segments(str(a_csv(tmp_path)))
    assert source.format == "index.csv"
    assert source.classes == ("square", "line")
    assert "classes are called as the csv calls their images" in source.notes
    assert source.label_map(2).shape == (23, 29)  # of an empty mask, the image's own size
    assert not source.label_map(2).any()
    assert source.split.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert source.group.tolist() == [number // 2 for number in range(12)]
    assert read_segments(str(tmp_path / "index.csv")).fingerprint() == source.fingerprint()


def test_a_column_that_says_otherwise_names_no_class(tmp_path):
    rows = [f"pictures/{n:02}.jpg,maps/{n:02}.png,x{n % 2}" for n in range(12)]
    source = read_segments(str(a_csv(tmp_path, "file,mask,class", rows)))
    assert source.classes == ("class 1", "class 2")


def test_folds_and_another_mask_for_one_file(tmp_path):
    rows = [f"pictures/{n:02}.jpg,maps/{n:02}.png,{n % 4}" for n in range(12)]
    source = read_segments(str(a_csv(tmp_path, "file,mask,fold", rows)))
    assert source.folds == 4
    assert source.indices("test", 1).tolist() == [1, 5, 9]
    a_csv(tmp_path, "file,mask,month", rows)
    assert read_segments(str(tmp_path), fold_column="month").fold_names == ("0", "1", "2", "3")
    a_csv(tmp_path, "file,mask,fold", [*rows, "./pictures/00.jpg,maps/01.png,0"])
    assert "has another mask than in line 2" in refused(tmp_path)


def test_what_render_writes(tmp_path):
    from foveal.app import cli

    assert cli.main(["render", "pipes", "--out", str(tmp_path / "r"), "--count", "7", "--size", "64"]) == 0
    source = read_segments(str(tmp_path / "r"), split=None)
    rendered = read_segments("pipes:7", split=None)
    assert source.classes == rendered.classes
    assert (source.split == rendered.split).all()
    assert source.label_map(0).shape == (64, 64)
    (tmp_path / "r/labels.csv").unlink()
    assert "a finished rendering" in refused(tmp_path / "r")


@pytest.mark.parametrize(("shown", "classes"), [("10 01 00", ("a", "b")), ("01 10 00", ("class 1", "class 2"))])
def test_columns_of_0_and_1_name_classes_if_they_say_what_is_shown(tmp_path, shown, classes):
    folders(tmp_path)
    rows = [f"images/{n:02}.jpg,{','.join(shown.split()[n % 3])},{'val' if n > 6 else 'train'}\n" for n in range(12)]
    (tmp_path / "labels.csv").write_text("file,a,b,split\n" + "".join(rows))
    source = read_segments(str(tmp_path))
    assert source.classes == classes
    assert source.split.tolist() == [0] * 7 + [1] * 5


def test_rendered_pipes():
    from foveal.data.pipes import render

    source = read_segments("pipes:5:2")
    for index in range(5):
        frame = render(2_000_000 + index, SIZE)
        assert (source.label_map(index) == label_map_of(frame)).all()
        assert (source.image(index) == frame.image).all()
        seen = {source.classes[value - 1] for value in np.unique(source.label_map(index)) if value}
        assert seen == {name for name, there in zip(source.classes, source.labels[index], strict=True) if there}
        assert seen <= {finding.kind for finding in frame.findings}
    assert "rendered pipes have no columns" in refused("pipes:5", fold_column="month")


def test_palette_colour_and_two_values(tmp_path):
    palette = Image.fromarray(np.minimum(LINE, 2))
    palette.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0])
    folders(tmp_path / "p", [palette, palette])
    assert (read_segments(str(tmp_path / "p")).label_map(0) == np.minimum(LINE, 2)).all()
    colours = np.array([(0, 0, 0), (9, 9, 200), (200, 9, 9)], np.uint8)
    folders(tmp_path / "c", [colours[SQUARE], colours[np.minimum(LINE, 2)]])
    (tmp_path / "c/labelmap.txt").write_text("background:0,0,0::\nblue:9,9,200::\nred:200,9,9::\n")
    source = read_segments(str(tmp_path / "c"))
    assert source.classes == ("blue", "red")
    assert (source.label_map(1) == np.minimum(LINE, 2)).all()
    folders(tmp_path / "b", [SQUARE * 255])
    assert (read_segments(str(tmp_path / "b")).label_map(0) == SQUARE).all()
    folders(tmp_path / "one", [Image.fromarray(SQUARE * 255).convert("1")])
    assert (read_segments(str(tmp_path / "one")).label_map(0) == SQUARE).all()
    folders(tmp_path / "16", [SQUARE.astype(np.uint16)])
    assert (read_segments(str(tmp_path / "16")).label_map(0) == SQUARE).all()


def test_label_maps_as_jpeg_are_cut_in_the_middle(tmp_path):
    large = np.zeros((80, 96), np.uint8)
    large[13:50, 21:77] = 255
    for number in range(3):
        put(tmp_path / f"images/{number}.png", noise(number, 80, 96))
        put(tmp_path / f"masks/{number}.jpg", large, quality=60)
    source = read_segments(str(tmp_path))
    assert (source.label_map(0) == large // 255).mean() > 0.99
    assert (
        source.areas.sum(0).tolist()
        == np.bincount(np.concatenate([source.label_map(index).ravel() for index in range(3)]), minlength=3).tolist()
    )
    assert "two values with soft edges" in source.notes[0]


def test_an_image_that_its_exif_turns_has_its_label_map_as_a_person_sees_it(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    put(tmp_path / "images/0.jpg", noise(0, 29, 23), exif=exif)
    put(tmp_path / "masks/0.png", SQUARE)
    source = read_segments(str(tmp_path))
    assert source.image(0).shape[:2] == source.label_map(0).shape == (23, 29)


def spoil(root, name):
    """Make the label map 01 bad; what a line says of it."""
    file = root / "masks/01.png"
    if name == "missing":
        file.unlink()
        return "images/01.jpg has no label map"
    if name == "empty":
        file.write_bytes(b"")
        return "masks/01.png is empty (0 bytes)"
    if name == "cut":
        file.write_bytes(file.read_bytes()[:60])
        return "masks/01.png damaged: "
    if name == "text":
        file.write_text("no image")
        return "masks/01.png is not an image"
    if name == "image":
        (root / "images/01.jpg").write_bytes(b"\xff\xd8\xff")
        return "masks/01.png damaged: "
    put(
        file,
        {
            "larger": np.zeros((46, 58), np.uint8),
            "turned": LINE.T.copy(),
            "cropped": LINE[:20],
            "photo": noise(1, 23, 29),
            "colour": np.stack([SQUARE * 200, SQUARE, SQUARE], -1),
            "deep": SQUARE.astype(np.uint16) * 300,
            "float": SQUARE.astype(np.float32),
        }[name]
        if name != "float"
        else Image.fromarray(SQUARE).convert("CMYK"),
        format="TIFF" if name == "float" else "PNG",
    )
    return {
        "larger": "masks/01.png is 58×46, but its image 29×23, the same shape in another size",
        "turned": "masks/01.png is 23×29, but its image 29×23, as if one of them were turned",
        "cropped": "masks/01.png is 29×20, but its image 29×23;",
        "photo": "masks/01.png has 667 colours, as a photo has",
        "colour": "masks/01.png has the colours (200, 1, 1), which no class has",
        "deep": "masks/01.png has values from 0 to 300; expected labels from 0 to 255",
        "float": "masks/01.png has CMYK pixels",
    }[name]


BADS = (
    "missing empty cut text image larger turned cropped photo colour deep float".split()  # noqa: SIM905 — a list of words
)


@pytest.mark.parametrize("name", BADS)
def test_bad_label_maps_are_named_and_refused_or_left_out(tmp_path, monkeypatch, name):
    monkeypatch.setattr("foveal.data.read_label_maps.MANY", 600)
    root = folders(tmp_path)
    (root / "classes.txt").write_text("square\nline\n")
    says = spoil(root, name)
    line = refused(root)
    assert line.startswith(
        f"{root}: expected a label map that fits each of 12 images, got 1 without: {says.rstrip(';')}"
    )
    assert line.endswith("mend them, or leave them out (--bad leave_out)")
    source = read_segments(str(root), bad="leave_out")
    assert len(source) == 11
    assert source.notes[0].startswith(f"1 image left out: {says.rstrip(';')}")
    assert [source.file(index) for index in range(3)] == ["images/00.jpg", "images/02.jpg", "images/03.jpg"]
    assert source.areas.shape == (11, 4)


def test_values_that_no_class_has(tmp_path):
    folders(tmp_path, [SQUARE, SQUARE * 7, SQUARE])
    (tmp_path / "classes.txt").write_text("background\nsquare\n")
    assert "masks/01.png has the values 7, which no class has" in refused(tmp_path)
    assert len(read_segments(str(tmp_path), bad="leave_out")) == 2
    assert "bad: expected refuse or leave_out, got never" in refused(tmp_path, bad="never")


def test_a_label_map_that_changes_after_it_was_read(tmp_path):
    source = read_segments(str(folders(tmp_path)))
    put(tmp_path / "masks/00.png", SQUARE * 9)
    with pytest.raises(BadImage, match="has the values 9, which no class has"):
        source.label_map(0)
    put(tmp_path / "masks/00.png", SQUARE[:7])
    with pytest.raises(BadImage, match="is 29×7, but its image 29×23"):
        source.label_map(0)
    with pytest.raises(FovealError, match="image: expected a number from 0 to 11, got 12"):
        source.label_map(12)


def test_classes_without_a_pixel_and_label_maps_without_an_image(tmp_path):
    folders(tmp_path)
    put(tmp_path / "masks/99.png", SQUARE)
    (tmp_path / "classes.txt").write_text("square\nline\nhole\n")
    source = read_segments(str(tmp_path))
    assert source.notes[:2] == (
        "1 label map without an image of that name left out, such as masks/99.png",
        "classes without a pixel: hole",
    )
    assert source.counts().tolist() == [4, 4, 0]


def test_what_is_no_set_of_label_maps(tmp_path):
    assert "got nothing there" in refused(tmp_path / "nowhere")
    assert "expected a csv with the columns file and mask" in refused(tmp_path)
    folders(tmp_path / "e", [EMPTY, EMPTY])
    assert "expected label maps with something found, got 2 empty ones" in refused(tmp_path / "e")
    folders(tmp_path / "b", [SQUARE])
    (tmp_path / "b/masks/00.png").write_bytes(b"x")
    assert "got none that can be used; 1 image left out: masks/00.png is not" in refused(
        tmp_path / "b", bad="leave_out"
    )
    folders(tmp_path / "t")
    put(tmp_path / "t/images/00.png", noise(0))
    assert "expected one image of each name, got images/00.jpg and images/00.png" in refused(tmp_path / "t")
    folders(tmp_path / "m")
    put(tmp_path / "m/masks/00_mask.png", SQUARE)
    assert "expected one label map of each name, got masks/00.png and masks/00_mask.png" in refused(tmp_path / "m")


def test_what_is_measured(tmp_path):
    specks = SQUARE.copy()
    specks[21, 1], specks[21, 27] = 1, 1  # less than a twentieth of the square
    source = read_segments(str(folders(tmp_path, (specks, LINE, EMPTY) * 4)), split=None)
    facts = json.loads(json.dumps(source.facts()))["properties"]
    assert (facts["images"], facts["classes"], facts["groups"]) == (12, 2, 0)
    assert (facts["height"], facts["width"], facts["smallest_side"], facts["largest_side"]) == (23, 29, 23, 29)
    assert facts["empty"] == pytest.approx(1 / 3)
    assert facts["images_with"] == [4, 4]
    assert facts["findings"] == 8
    assert facts["sides"] == [7, 5]  # √49 and √25
    assert facts["thins"] == [0, 1]
    assert facts["thin"] == 0.5
    assert facts["class_areas"] == pytest.approx([51 / (3 * 667 - 1), 25 / (3 * 667 - 1)], rel=1e-3)
    assert facts["background_area"] + sum(facts["class_areas"]) == pytest.approx(1)
    assert facts["unlabelled_area"] == pytest.approx(1 / (3 * 667))
    squares = source.properties(np.array([3, 0]))
    assert (squares["images"], squares["findings"], squares["thin"], squares["empty"]) == (2, 2, 0.0, 0.0)
    nothing = source.properties(np.array([], np.int64))
    assert (nothing["images"], nothing["findings"], nothing["side"]) == (0, 0, [0.0, 0.0, 0.0])
    assert source.summary().splitlines()[-4:] == [
        "  pixels: background 96.2%, class 1 2.5%, class 2 1.2%, unlabelled 0.05%",
        "  empty label maps: 33.3%",
        "  findings: 8, median side 6 pixels, a tenth below 5, a tenth above 7 (50% thin)",
        "  median side by class: class 1 7, class 2 5 (100% thin)",
    ]


def test_specks_are_no_findings_and_touching_corners_join():
    label_map = np.zeros((40, 40), np.uint8)
    label_map[:20, :20] = 1
    label_map[20:25, 20:25] = 1  # touches at a corner
    label_map[30, 30:34] = 1  # less than a twentieth
    label_map[35, 35] = 2  # the only one of its class
    found = findings(label_map)
    assert found.value.tolist() == [1, 2]
    assert found.area.tolist() == [425, 1]
    assert found.length.tolist() == pytest.approx([25 * 2**0.5, 2**0.5])


def test_unlabelled_images_are_in_no_training(tmp_path):
    folders(tmp_path, [np.full((23, 29), 255, np.uint8), SQUARE, LINE])
    source = read_segments(str(tmp_path))
    assert source.known().tolist() == [False, True, True]
    assert source.areas[0].tolist() == [0, 0, 0, 667]


def test_progress_is_told_of_every_label_map(tmp_path):
    told = []

    def progress(items, total, what):
        told.append((total, what))
        return items

    read_segments(str(folders(tmp_path)), progress=progress)
    assert told == [(12, "reading label maps"), (8, "comparing label maps with images")]
