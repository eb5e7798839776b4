"""Exported segmenters: the same answers as torch's, without torch, and one line for any file that is none."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from PIL import Image
from tasks.segment.painted import a_model, maps, painted
from tasks.segment.read_graph import written

from foveal.deploy.onnx.file import write_export
from foveal.errors import FovealError
from foveal.runtime.exported import Session
from foveal.runtime.onnx_names import CARD
from foveal.tasks.load import load
from foveal.tasks.segment.export import export_onnx
from foveal.tasks.segment.session import SegmentSession

A = maps("110000", "110002", "000002", "000000")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return written(tmp_path_factory.mktemp("exported") / "reads.onnx")


def session_of(path):
    exported = Session(path)
    return SegmentSession(exported, load(path).card)


def test_whole_and_in_tiles(file):
    model, label_map = load(file), np.random.default_rng(0).integers(0, 3, (53, 97))
    for options in ({"tile": 0}, {"tile": 32, "overlap": 8}, {"tile": 32, "overlap": 0}):
        (found,) = model.predict(painted(label_map), **options)
        np.testing.assert_array_equal(found.label_map, label_map)
    (found,) = model.predict(painted(A))
    assert [(piece.kind, piece.area) for piece in found.findings] == [("crack", 4), ("hole", 2)]
    np.testing.assert_array_equal(found.scores, [1, 1, 1])


@pytest.mark.slow
def test_a_file_that_foveal_exported(tmp_path):
    """Of odd sizes, in batches, whole and in tiles: what the model of torch says."""
    model = a_model()
    write_export(export_onnx(model.network, model.card), {}, tmp_path / "m.onnx")
    random = np.random.default_rng(0)
    images = [painted(random.integers(0, 3, size), sure=9) for size in ((31, 47), (31, 47), (2, 3), (61, 90))]
    for options in ({"tile": 48, "overlap": 16, "batch": 2}, {"tile": 0}):
        pair = (list(one.predict(images, **options)) for one in (model, load(tmp_path / "m.onnx")))
        for theirs, mine in zip(*pair, strict=True):
            np.testing.assert_array_equal(mine.label_map, theirs.label_map)
            np.testing.assert_allclose(mine.scores, theirs.scores, atol=1e-5)


def test_no_torch(file, tmp_path):
    """A folder of results is written without torch, too."""
    Image.fromarray(painted(A)).save(tmp_path / "a.png")
    words = ["predict", str(file), str(tmp_path / "a.png"), "--out", str(tmp_path / "out"), "--annotations", "coco"]
    program = (
        "import sys\n"
        "from foveal.app.cli import main\n"
        f"status = main({words!r})\n"
        "print(sorted(set(sys.modules) & {'torch', 'onnx', 'yaml', 'safetensors'}))\n"
        "sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"
    assert (tmp_path / "out/coco.json").is_file()


# --- files that are none, and calls that are wrong --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"classes": ("background", "crack")}, r"scores for the card's 2 classes, got the shape \['B', 3\]"),
        ({"outputs": ("label_map", "logits")}, "outputs label_map, scores, logits, got none called scores"),
        ({"kind": TensorProto.FLOAT}, "one input, frames of bytes, got"),
        ({"frames": ["B", 32, 32, 3]}, r"any number of frames of any size, got the shape \['B', 32, 32, 3\]"),
        ({"frames": [1, "H", "W", 3]}, "any number of frames of any size"),
        ({"frames": ["B", "H", "W", 4]}, "any number of frames of any size"),
    ],
)
def test_what_is_no_segmenter(tmp_path, changes, line):
    path = written(tmp_path / "x.onnx", **changes)
    with pytest.raises(FovealError, match=line) as caught:
        load(path).predict(painted(A))
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_file_of_another_task(tmp_path, file):
    proto = onnx.load(str(file))
    card = next(one for one in proto.metadata_props if one.key == CARD)
    card.value = card.value.replace('"task": "segment"', '"task": "classify"')
    onnx.save(proto, tmp_path / "x.onnx")
    with pytest.raises(FovealError, match=r"x.onnx: expected outputs probability, found, logits"):
        load(tmp_path / "x.onnx").predict(painted(A))


@pytest.mark.parametrize(
    ("frames", "got"),
    [
        (painted(A)[None].astype(np.float32), r"float32 \(1, 4, 6, 3\)"),
        (painted(A), r"uint8 \(4, 6, 3\)"),
        (painted(A)[None, ..., :2], r"uint8 \(1, 4, 6, 2\)"),
        (np.zeros((0, 4, 6, 3), np.uint8), r"uint8 \(0, 4, 6, 3\)"),
        ([[1]], r"\[\[1\]\]"),
    ],
)
def test_frames_that_are_none(file, frames, got):
    with pytest.raises(FovealError, match=rf"frames: expected uint8 \(B, H, W, 3\), none of them 0, got {got}"):
        session_of(file)(frames)


def test_labels_that_no_class_has(file):
    with pytest.raises(FovealError, match="label_map: expected bytes below 3, got uint8 up to 4"):
        session_of(file)(painted(np.full((3, 5), 4))[None])
