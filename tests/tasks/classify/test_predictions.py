"""The tables of a run's predictions, read back."""

import numpy as np
import pytest

from foveal.data.source import UNLABELLED, FileImages, Names, Source
from foveal.errors import FovealError
from foveal.tasks.classify import finish
from foveal.tasks.classify.predictions import read_predicted


def written(tmp_path, *lines):
    file = tmp_path / "predictions-test.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_one_label(tmp_path):
    file = written(tmp_path, "file,truth,logit a;b,logit c", '"x,1.png",c,1.5,-2e-3', "y.png,a;b,0,3", "z.png,?,1,2")
    found = read_predicted(file, multi_label=False)
    assert found.files == ("x,1.png", "y.png")
    assert found.classes == ("a;b", "c")
    assert found.truth.tolist() == [1, 0]
    np.testing.assert_array_equal(found.logits, [[1.5, -0.002], [0, 3]])


def test_several_labels(tmp_path):
    file = written(
        tmp_path,
        "file,truth,logit a,logit b,logit c",
        "x.png,a;c,1,2,3",
        "y.png,,4,5,6",
        "z.png,?,7,8,9",
        "w.png,b,0,0,0",
    )
    found = read_predicted(file, multi_label=True)
    assert found.files == ("x.png", "y.png", "w.png")
    assert found.truth.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("multi_label", [False, True])
def test_no_image_has_a_label(tmp_path, multi_label):
    found = read_predicted(written(tmp_path, "file,truth,logit a,logit b", "x.png,?,1,2"), multi_label)
    assert found.files == ()
    assert found.logits.shape == (0, 2)
    assert found.truth.shape == ((0, 2) if multi_label else (0,))


@pytest.mark.parametrize("multi_label", [False, True])
def test_what_a_run_writes_is_read_back(tmp_path, multi_label):
    labels = np.array([[1, 0], [255, 255], [1, 1]], np.uint8) if multi_label else np.array([1, -1, 0])
    images = FileImages("/", Names.of(["x.png", "y.png", "z.png"]))
    source = Source("set", "csv", ("a", "b"), multi_label, labels, np.zeros(3, np.int8), images)
    logits = np.array([[0.5, -1], [2, 3], [4, 7]], np.float32)
    text = finish._table(finish.SplitLogits("test", logits, np.arange(3)), source)
    assert f"y.png,{UNLABELLED}," in text
    found = read_predicted(written(tmp_path, text.strip()), multi_label)
    assert found.files == ("x.png", "z.png")
    assert found.truth.tolist() == labels[[0, 2]].tolist()
    np.testing.assert_array_equal(found.logits, logits[[0, 2]])


@pytest.mark.parametrize(
    ("lines", "multi_label"),
    [
        (["file,truth,logit a", "x.png,b,1"], False),
        (["file,truth,logit a", "x.png,,1"], False),
        (["file,truth,logit a", "x.png,a;b,1"], True),
        (["file,truth,logit a", "x.png,a,one"], False),
        (["file,truth,logit a,logit b", "x.png,a,1"], False),
        (["file,truth,logit a,logit b", "x.png,a,1,2", "y.png,a,1"], False),
        (["file,truth,logit a", "x.png"], True),
        (["name,truth,logit a", "x.png,a,1"], False),
        (["file,truth,a", "x.png,a,1"], False),
        ([], False),
    ],
)
def test_damaged(tmp_path, lines, multi_label):
    file = written(tmp_path, *lines)
    with pytest.raises(FovealError, match=r"predictions-test.csv: expected") as caught:
        read_predicted(file, multi_label)
    assert "\n" not in str(caught.value)


def test_not_there(tmp_path):
    with pytest.raises(FovealError, match="expected the predictions of a run"):
        read_predicted(tmp_path / "none.csv", multi_label=False)
    (tmp_path / "latin.csv").write_bytes(b"file,truth,logit caf\xe9\n")
    with pytest.raises(FovealError, match="expected the predictions of a run"):
        read_predicted(tmp_path / "latin.csv", multi_label=False)
