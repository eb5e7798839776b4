"""Annotations as other tools write them, each format by hand; and files that are broken, or mean harm."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from foveal.data.annotated_maps import segments_of
from foveal.data.annotations import format_of
from foveal.data.segments import read_segments
from foveal.errors import FovealError

SQUARE = np.array([(1, 1), (5, 1), (5, 4), (1, 4)], np.float64)


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


def coco(folder, **changes):
    images_of(folder / "images", (7, 11))
    content = {
        "images": [{"id": 5, "file_name": "0.png", "height": 7, "width": 11}],
        "annotations": [{"id": 1, "image_id": 5, "category_id": 3, "segmentation": [SQUARE.ravel().tolist()]}],
        "categories": [{"id": 3, "name": "crack"}, {"id": 0, "name": "background"}, {"id": 9, "name": "hole"}],
    } | changes
    (folder / "instances_val.json").write_text(changes.get("text") or json.dumps(content))
    return folder


def test_coco_by_hand(tmp_path):
    source = read_segments(str(coco(tmp_path)), split=None)
    assert source.classes == ("crack", "hole")
    assert source.split.tolist() == [1]
    assert source.label_map(0)[1:4, 1:5].all()
    assert source.areas.tolist() == [[65, 12, 0, 0]]
    assert read_segments(str(tmp_path / "instances_val.json")).file(0) == "images/0.png"


@pytest.mark.parametrize("place", ["train2017", "images/train2017", "train", "images/train", "train/images", "."])
def test_where_coco_s_images_lie(tmp_path, place):
    coco(tmp_path)
    (tmp_path / "annotations").mkdir()
    (tmp_path / "instances_val.json").rename(tmp_path / "annotations/instances_train2017.json")
    (tmp_path / "images/0.png").unlink()
    images_of(tmp_path / place, (7, 11))
    assert read_segments(str(tmp_path), split=None).split.tolist() == [0]
    assert len(read_segments(str(tmp_path / "annotations/instances_train2017.json"))) == 1


def test_coco_as_roboflow_writes_it(tmp_path):
    for split in ("train", "valid"):
        coco(tmp_path / "made")
        (tmp_path / split).mkdir()
        (tmp_path / "made/instances_val.json").rename(tmp_path / split / "_annotations.coco.json")
        (tmp_path / "made/images/0.png").rename(tmp_path / split / "0.png")
    source = read_segments(str(tmp_path), split=None)
    assert [source.file(index) for index in range(2)] == ["train/0.png", "valid/0.png"]
    assert source.split.tolist() == [0, 1]


def annotation(**changes):
    return {"annotations": [{"id": 1, "image_id": 5, "category_id": 3, "bbox": [1, 1, 2, 2]} | changes]}


RUNS = {"size": [7, 11], "counts": [77]}
HOSTILE_COCO = [
    ({"text": "{"}, "instances_val.json, line 1: expected JSON, got something else"),
    ({"text": '{"images": [], "annotations": ' + "[" * 100_000}, "expected JSON, got something else"),
    ({"text": '{"images": 1, "annotations": 1}'}, "lists of images, annotations, categories"),
    ({"images": [7]}, "images 0: expected an object, got 7"),
    ({"images": []}, "annotations of its images, got one of image 5"),
    ({"images": [], "annotations": []}, "expected COCO with images, got none"),
    ({"categories": []}, "expected categories, got none"),
    ({"categories": [{"id": 3}]}, "category 3: expected an id and a name"),
    ({"categories": [{"id": 3, "name": "a"}, {"id": 4, "name": "a"}]}, "expected every class once"),
    (
        {"images": [{"id": 5, "file_name": "/etc/passwd", "height": 7, "width": 11}]},
        "image 5: expected the name of a file",
    ),
    (
        {"images": [{"id": 5, "file_name": "../0.png", "height": 7, "width": 11}]},
        "image 5: expected the name of a file",
    ),
    (
        {"images": [{"id": 5, "file_name": "..\\0.png", "height": 7, "width": 11}]},
        "image 5: expected the name of a file",
    ),
    (
        {"images": [{"id": 5, "file_name": "C:\\0.png", "height": 7, "width": 11}]},
        "image 5: expected the name of a file",
    ),
    ({"images": [{"id": 5, "file_name": 7, "height": 7, "width": 11}]}, "image 5: expected the name of a file"),
    ({"images": [{"id": 5, "file_name": "0.png", "height": 10**9, "width": 10**9}]}, "at most 100,000,000 pixels"),
    (
        {"images": [{"id": 5, "file_name": "0.png", "height": -7, "width": 11}]},
        "image 5: expected a height and a width",
    ),
    (
        {"images": [{"id": 5, "file_name": "0.png", "height": 9, "width": 11}]},
        "0.png annotated is 11×9, but its image 11×7",
    ),
    ({"images": [{"id": 5, "file_name": "1.png", "height": 7, "width": 11}]}, "1.png no such file"),
    (
        {"images": [{"id": 5, "file_name": "0.png", "height": 7, "width": 11}] * 2},
        "each image once, got images/0.png twice",
    ),
    ({"images": [{"id": [5], "file_name": "0.png", "height": 7, "width": 11}]}, "the id of an image, got [5]"),
    (annotation(category_id=4), "annotation 1: expected a category that is listed, such as 3, got 4"),
    (annotation(category_id=[3]), "annotation 1: expected a category that is listed"),
    (annotation(image_id=None), "annotation 1: expected the id of an image, got None"),
    (annotation(bbox=[1, 2, 3]), "annotation 1: expected 4 coordinates within 1e+07 pixels, got [1, 2, 3]"),
    (annotation(bbox=None), "annotation 1: expected 4 coordinates"),
    (annotation(bbox=[1, 2, 3, 10**400]), "annotation 1: expected 4 coordinates"),
    ({"text": json.dumps({"images": [], "categories": [], "annotations": [float("nan")]})}, "NaN is no number"),
    (annotation(segmentation=[[1, 2, 3, 4]]), "annotation 1: expected x, y of at least 3 corners, got 4 numbers"),
    (annotation(segmentation=[[1, 2, 3, 4, 5, "6"]]), "annotation 1: expected coordinates within"),
    (annotation(segmentation=[[1, 2, 3, 4, 5, 1e9]]), "annotation 1: expected coordinates within"),
    (annotation(segmentation=[7]), "annotation 1: expected coordinates"),
    (annotation(segmentation="abc"), "annotation 1: expected polygons or run lengths, got 'abc'"),
    (annotation(segmentation=RUNS | {"counts": [76]}), "expected run lengths that add up to 7 · 11 pixels, got 76"),
    (annotation(segmentation=RUNS | {"counts": [10**12, -(10**12) + 77]}), "annotation 1: expected run lengths"),
    (annotation(segmentation=RUNS | {"counts": "\n"}), "annotation 1: expected run lengths as COCO's letters"),
    (annotation(segmentation=RUNS | {"counts": 7}), "annotation 1: expected counts"),
    (annotation(segmentation=RUNS | {"size": [7, 10**9]}), "annotation 1: expected run lengths of the size [7, 11]"),
]


@pytest.mark.parametrize(("changes", "line"), HOSTILE_COCO)
def test_hostile_coco(tmp_path, changes, line):
    got = refused(coco(tmp_path, **changes))
    assert line in got
    assert got.startswith((str(tmp_path), "the classes of", "set: "))


def test_coco_leaves_out_what_cannot_be_used(tmp_path):
    entries = [{"id": number, "file_name": f"{number}.png", "height": 7, "width": 11} for number in range(3)]
    found = annotation(image_id=0, segmentation=[SQUARE.ravel().tolist()])
    images_of(coco(tmp_path, images=entries, **found) / "images", (7, 11), (6, 11))
    source = segments_of(read(tmp_path), bad="leave_out")
    assert len(source) == 1
    assert source.notes == (
        "2 images left out: images/1.png annotated is 11×7, but its image 11×6; images/2.png no such file",
    )


def yolo(folder, labels="0 0.1 0.1 0.5 0.1 0.5 0.5\n", yaml="train: images\nnames: [crack, hole]\n"):
    images_of(folder / "images", (10, 20), (5, 5))
    (folder / "labels").mkdir(exist_ok=True)
    (folder / "labels/0.txt").write_text(labels)
    (folder / "data.yaml").write_text(yaml)
    return folder


def test_yolo_by_hand(tmp_path):
    source = read_segments(str(yolo(tmp_path, "1 0.1 0.1 0.5 0.1 0.5 0.5 0.1 0.5\n\n0 0.75 0.5 0.1 0.2\n")), split=None)
    assert source.classes == ("crack", "hole")
    assert source.label_map(0)[1:5, 2:10].tolist() == [[2] * 8] * 4
    assert source.label_map(0)[4:6, 14:16].tolist() == [[1] * 2] * 2
    assert source.areas.tolist() == [[200 - 36, 4, 32, 0], [25, 0, 0, 0]]  # no labels: nothing is found
    (tmp_path / "data.yaml").write_text("train: [../images]\nvalid: ./images\nnames:\n  0: crack\n  1: hole\n")
    assert read_segments(str(tmp_path / "data.yaml"), split=None).split.tolist() == [0, 0]
    (tmp_path / "list.txt").write_text("./images/1.png\n\nimages/0.png")
    (tmp_path / "data.yaml").write_text("test: list.txt\nnames: [crack, hole]\n")
    assert read_segments(str(tmp_path), split=None).split.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"labels": "2 0.1 0.1 0.5 0.1 0.5 0.5\n"}, "labels/0.txt, line 1: expected a class from 0 to 1, got '2'"),
        ({"labels": "\n-1 0.1 0.1 0.5 0.1 0.5 0.5\n"}, "labels/0.txt, line 2: expected a class from 0 to 1"),
        ({"labels": "9999999999999 0.1 0.1 0.5 0.1 0.5 0.5\n"}, "line 1: expected a class"),
        ({"labels": "0 0.1 0.1 0.5 0.1 0.5 nan\n"}, "line 1: expected a coordinate within 1e+07 pixels, got 'nan'"),
        ({"labels": "0 0.1 0.1 0.5 0.1 0.5 inf\n"}, "line 1: expected a coordinate"),
        ({"labels": "0 0.1 0.1 0.5 0.1 0.5 x\n"}, "line 1: expected a coordinate"),
        ({"labels": "0 0.1 0.1 0.5 0.1 0.5\n"}, "line 1: expected x, y of at least 3 corners, got 5 numbers"),
        ({"labels": "0\n"}, "line 1: expected x, y of at least 3 corners, got 0 numbers"),
        ({"yaml": "train: images\n"}, "data.yaml: expected `names`"),
        (
            {"yaml": "train: ../../etc\nnames: [a, b]\n"},
            "data.yaml, train: expected the name of a file in the set's folder",
        ),
        ({"yaml": "train: /etc\nnames: [a, b]\n"}, "data.yaml, train: expected the name of a file in the set's folder"),
        ({"yaml": "train: 7\nnames: [a, b]\n"}, "data.yaml, train: expected the name of a file in the set's folder"),
        (
            {"yaml": "train: gone\nnames: [a, b]\n"},
            "data.yaml, train: expected a folder of images below it, got 'gone'",
        ),
        ({"yaml": "names: [a, b]\n"}, "expected images below the folders that train, val and test name, got none"),
    ],
)
def test_hostile_yolo(tmp_path, changes, line):
    got = refused(yolo(tmp_path, **changes))
    assert line in got
    assert got.startswith(str(tmp_path))


def labelme(folder, *shapes, **changes):
    images_of(folder, (7, 11))
    content = {"shapes": list(shapes), "imagePath": "0.png", "imageHeight": 7, "imageWidth": 11} | changes
    (folder / "0.json").write_text(json.dumps(content))
    return folder


def shape(points, kind="polygon", label="crack", **more):
    return {"label": label, "shape_type": kind, "points": points} | more


def test_labelme_by_hand(tmp_path):
    mask = io.BytesIO()
    Image.fromarray(np.array([[255, 0], [255, 255]], np.uint8)).save(mask, "PNG")
    labelme(
        tmp_path,
        shape(SQUARE.tolist()),
        shape([[9, 5], [10, 6]], "mask", "hole", mask=base64.b64encode(mask.getvalue()).decode()),
        shape([[0, 0], [3, 3]], "line"),
        shape([[2, 2], [4, 3]], "rectangle", "_background_"),
        shape([[7, 2], [7, 3]], "circle", "hole"),
        imageHeight=None,
    )
    annotated = read(tmp_path)
    assert annotated.notes == ("1 shape left out: lines and points have no area",)
    assert annotated.classes == ("crack", "hole")
    label_map = annotated.items[0].label_map
    assert label_map.tolist() == [
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 1, 1, 1, 1, 0, 2, 2, 0, 0, 0],
        [0, 1, 0, 0, 1, 0, 2, 2, 0, 0, 0],
        [0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2],
    ]


def test_labelme_s_json_beside_and_below_its_images(tmp_path):
    labelme(tmp_path / "train", shape(SQUARE.tolist()))
    (tmp_path / "train/json").mkdir()
    content = json.loads((tmp_path / "train/0.json").read_text()) | {"imagePath": "..\\0.png"}
    (tmp_path / "train/0.json").unlink()
    (tmp_path / "train/json/0.json").write_text(json.dumps(content))
    (item,) = read(tmp_path).items
    assert (item.file, item.split) == ("train/0.png", 0)


@pytest.mark.parametrize(
    ("shapes", "changes", "line"),
    [
        ([], {"shapes": 7}, "0.json: expected LabelMe, which has a list of shapes"),
        ([], {}, "expected shapes with a label, got none"),
        ([shape(SQUARE.tolist())], {"imagePath": "/etc/passwd"}, "0.json, imagePath: expected the name of a file"),
        ([shape(SQUARE.tolist())], {"imagePath": "../../0.png"}, "0.json, imagePath: expected the name of a file"),
        ([shape(SQUARE.tolist())], {"imagePath": None}, "0.json, imagePath: expected the name of a file"),
        ([shape(SQUARE.tolist())], {"imageHeight": 10**9}, "imageHeight and imageWidth: expected a height and a width"),
        ([shape(SQUARE.tolist())], {"imageHeight": "7"}, "imageHeight and imageWidth: expected a height and a width"),
        ([shape(SQUARE.tolist(), label=None)], {}, "0.json, shape 0: expected a label, a shape_type and points"),
        ([shape(None)], {}, "0.json, shape 0: expected a label, a shape_type and points"),
        (["x"], {}, "0.json, shape 0: expected a label, a shape_type and points"),
        ([shape([[1, 2], [3, 4]])], {}, "0.json, shape 0: expected x, y of at least 3 corners"),
        ([shape([[1, 2], [3, 4], [5, None]])], {}, "0.json, shape 0: expected 2 coordinates"),
        ([shape([[1, 2], [3, 4], 5])], {}, "0.json, shape 0: expected 2 coordinates"),
        ([shape([[1, 2]], "rectangle")], {}, "0.json, shape 0: expected a rectangle of two points, got 1"),
        ([shape([[1, 2]], "cube")], {}, "0.json, shape 0: expected a polygon, rectangle, circle or mask, got 'cube'"),
        ([shape([[1, 2], [3, 4]], "mask")], {}, "0.json, shape 0: expected a mask as a PNG in base64, got None"),
        ([shape([[1, 2], [3, 4]], "mask", mask="ü")], {}, "0.json, shape 0: expected a mask as a PNG in base64"),
        ([shape([[1, 2], [3, 4]], "mask", mask="AAAA")], {}, "0.json, shape 0: expected a mask as a PNG in base64"),
        ([shape([[10, 2], [11, 4]], "mask", mask="PNG")], {}, "a mask inside the image of 11×7, got 3×2 at 10, 2"),
    ],
)
def test_hostile_labelme(tmp_path, shapes, changes, line):
    for one in shapes:
        if isinstance(one, dict) and one.get("mask") == "PNG":
            mask = io.BytesIO()
            Image.new("L", (3, 2)).save(mask, "PNG")
            one = one.update(mask=base64.b64encode(mask.getvalue()).decode())
    got = refused(labelme(tmp_path, *shapes, **changes))
    assert line in got
    assert got.startswith(str(tmp_path))


IMAGE = '<image id="0" name="0.png" width="11" height="7">{}</image>'
POLYGON = '<polygon label="crack" points="1,1;5,1;5,4;1,4" z_order="{}"/>'


def cvat(folder, shapes="", text=""):
    images_of(folder / "images", (7, 11))
    (folder / "annotations.xml").write_text(text or f"<annotations>{IMAGE.format(shapes)}</annotations>")
    return folder


def test_cvat_by_hand(tmp_path):
    mask = '<mask label="hole" rle="1, 2, 3" left="3" top="2" width="3" height="2" z_order="1"/>'
    cvat(tmp_path, mask + POLYGON.format(0) + '<polyline label="seam" points="1,1;2,2"/>')
    annotated = read(tmp_path)
    assert annotated.notes == ("1 shape left out: lines and points have no area",)
    assert annotated.classes == ("crack", "hole")
    label_map = annotated.items[0].label_map
    assert label_map[1:4, 1:7].tolist() == [[1, 1, 1, 1, 0, 0], [1, 1, 1, 2, 2, 0], [1, 1, 1, 1, 0, 0]]


BOMB = '<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><annotations>{}</annotations>'


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"text": "<annotations>"}, "annotations.xml, line 1: expected XML, got something else (no element found)"),
        ({"text": BOMB.format("&b;")}, "expected XML without a DOCTYPE, got one, which may declare entities"),
        ({"text": "<annotations>&b;</annotations>"}, "expected XML, got something else (undefined entity)"),
        ({"text": '<!DOCTYPE a SYSTEM "file:///etc/passwd"><annotations/>'}, "expected XML without a DOCTYPE"),
        ({"text": "<annotations>" + "<a>" * 100_000}, "expected at most 64 elements inside each other"),
        ({"text": "<annotations/>"}, "expected images, got none"),
        ({"text": "<annotations><track/></annotations>"}, "expected CVAT for images, got tracks of a video; export it"),
        ({"text": "<other><annotations/></other>"}, "expected CVAT for images, whose root is annotations, got 'other'"),
        ({"text": '<annotations><image name="../x.png"/></annotations>'}, "image None: expected the name of a file"),
        ({"text": '<annotations><image name="0.png"/></annotations>'}, "image 0.png: expected a height and a width"),
        ({"shapes": '<polygon label="a" points="1,1;nan,1;5,4"/>'}, "image 0.png, shape 0: expected a coordinate"),
        ({"shapes": '<polygon label="a" points="1,1;5,4"/>'}, "shape 0: expected x, y of at least 3 corners, got 4"),
        ({"shapes": '<polygon label="a"/>'}, "shape 0: expected a coordinate within 1e+07 pixels, got ''"),
        ({"shapes": '<polygon points="1,1;2,2;3,3"/>'}, "shape 0: expected a label, got none"),
        ({"shapes": '<blob label="a"/>'}, "shape 0: expected a polygon, a box or a mask, got 'blob'"),
        ({"shapes": '<box label="a" xtl="1"/>'}, "shape 0: expected a coordinate"),
        (
            {"shapes": '<mask label="a" rle="6" left="9" top="0" width="3" height="2"/>'},
            "a mask inside the image of 11×7",
        ),
        (
            {"shapes": '<mask label="a" rle="7" left="0" top="0" width="3" height="2"/>'},
            "add up to 3 · 2 pixels, got 7",
        ),
        (
            {"shapes": '<mask label="a" rle="x" left="0" top="0" width="3" height="2"/>'},
            "run lengths with commas between",
        ),
    ],
)
def test_hostile_cvat(tmp_path, changes, line):
    got = refused(cvat(tmp_path, **changes))
    assert line in got
    assert got.startswith(str(tmp_path))


def voc(folder, text, lists=""):
    images_of(folder / "JPEGImages", (7, 11))
    for name, content in (("Annotations/0.xml", text), ("ImageSets/Main/train.txt", lists)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


BOX = "<object><name>crack</name><bndbox><xmin>{}</xmin><ymin>2</ymin><xmax>5</xmax><ymax>4</ymax></bndbox></object>"


def test_voc_s_boxes_by_hand(tmp_path):
    voc(tmp_path, f"<annotation>{BOX.format(2)}</annotation>", "0\n")
    annotated = read(tmp_path)
    assert annotated.classes == ("crack",)
    assert annotated.items[0].split == 0
    assert annotated.items[0].findings[0].box == (1, 1, 5, 4)  # pixels 2 to 5 and 2 to 4, counted from 1


@pytest.mark.parametrize(
    ("text", "lists", "line"),
    [
        ("<annotation>", "", "0.xml, line 1: expected XML"),
        (BOMB.format("&b;"), "", "0.xml: expected XML without a DOCTYPE"),
        ("<other/>", "", "0.xml: expected VOC, whose root is annotation, got 'other'"),
        ("<annotation/>", "", "Annotations: expected boxes with a name, got none"),
        (f"<annotation>{BOX.format('')}</annotation>", "", "0.xml, object 0: expected a coordinate"),
        (f"<annotation>{BOX.format('inf')}</annotation>", "", "0.xml, object 0: expected a coordinate"),
        ("<annotation><object/></annotation>", "", "0.xml, object 0: expected a name, got none"),
        (f"<annotation>{BOX.format(2)}</annotation>", "../0\n", "train.txt: expected the name of a file"),
        (
            "<annotation><size><height>99999999</height><width>99999</width></size></annotation>",
            "",
            "0.xml, size: expected a height and a width, at most 100,000,000 pixels",
        ),
    ],
)
def test_hostile_voc(tmp_path, text, lists, line):
    got = refused(voc(tmp_path, text, lists))
    assert line in got
    assert got.startswith(str(tmp_path))
