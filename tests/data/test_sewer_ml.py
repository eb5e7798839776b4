"""Sewer-ML's own layout: against the csv module, with every mistake reported with its line,
and at its full size within bounds.
"""

import csv
import io
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from foveal.data.formats import sewer_ml
from foveal.data.formats.sewer_ml import CODES
from foveal.data.formats.sewer_ml import read as read_sewer_ml
from foveal.data.read import read
from foveal.errors import FovealError
from foveal.metrics.importance import CIW
from foveal.runtime.image import BadImage

HEADER = ["Filename", "VA", *CODES, "ND", "Defect"]


def row(name, *codes):
    return [name, "1", *(str(int(code in codes)) for code in CODES), str(int(not codes)), str(int(bool(codes)))]


def write(path, rows, header=HEADER, end="\n"):
    path.write_text(end.join(",".join(line) for line in [header, *rows]) + end, newline="")


def refused(folder):
    with pytest.raises(FovealError) as error:
        read(str(folder))
    assert "\n" not in str(error.value)
    return str(error.value).replace(f"{folder}/", "")


def test_the_official_layout(tmp_path):
    write(tmp_path / "SewerML_Train.csv", [row("00000001.png", "RB", "OK"), row("2.png"), row("00000003.png", "AF")])
    write(tmp_path / "SewerML_Val.csv", [row("00000004.png", "OB")])
    write(tmp_path / "SewerML_Test.csv", [["00000005.png"], ["00000006.png"]], ["Filename"])
    for folder, name, grey in (("Train", "2.png", 11), ("Valid", "00000004.png", 22)):
        (tmp_path / folder).mkdir()
        Image.new("RGB", (5, 3), (grey, 0, 0)).save(tmp_path / folder / name)
    source = read(str(tmp_path))
    assert source.format == "Sewer-ML"
    assert source.multi_label
    assert source.classes == CODES
    assert len(CODES) == 17
    assert source.labels[:4].sum(1).tolist() == [2, 0, 1, 1]
    assert (
        source.labels[0, CODES.index("RB")]
        == source.labels[0, CODES.index("OK")]
        == source.labels[3, CODES.index("OB")]
        == 1
    )
    assert (source.labels[4:] == 255).all()
    assert source.known().tolist() == [True] * 4 + [False] * 2
    assert source.split.tolist() == [0, 0, 0, 1, 2, 2]
    assert [source.file(index) for index in (1, 3, 5)] == ["Train/2.png", "Valid/00000004.png", "00000006.png"]
    assert source.image(1)[0, 0, 0] == 11
    assert source.image(3)[0, 0, 0] == 22
    with pytest.raises(BadImage, match="no such file"):
        source.image(0)
    assert source.importance.tolist() == list(CIW.values())
    assert source.importance.sum() == pytest.approx(6.7024)
    assert "train 3 · val 1 · test 2, 2 without a label" in source.describe()
    assert "… 10 more, none 1)" in source.describe()
    assert source.facts()["splits"]["test"]["labelled"] == 0
    with pytest.raises(FovealError, match="its own columns"):
        read(str(tmp_path), label="RB")


def test_columns_in_any_order_and_windows_line_ends(tmp_path):
    order = ["WaterLevel", *reversed(HEADER)]
    lines = [row("a.png", "RB"), row("b.png", "OK")]
    write(tmp_path / "SewerML_Val.csv", [["35", *reversed(line)] for line in lines], order, "\r\n")
    source = read_sewer_ml(tmp_path, "x")
    assert source.labels[:, 0].tolist() == [1, 0]
    assert source.labels[:, 16].tolist() == [0, 1]
    assert [source.file(index) for index in range(2)] == ["a.png", "b.png"]


def test_empty_lines_at_the_end(tmp_path):
    path = tmp_path / "SewerML_Val.csv"
    write(path, [row("a.png"), row("b.png", "RB")])
    path.write_text(path.read_text() + "\n\n")
    assert len(read_sewer_ml(tmp_path, "x")) == 2


def test_train_alone_gives_a_share_to_val(tmp_path):
    write(tmp_path / "SewerML_Train.csv", [row(f"{n}.png", *CODES[n % 17 : n % 17 + 1]) for n in range(340)])
    source = read(str(tmp_path))
    assert len(source.indices("val")) == 51
    assert source.counts(source.indices("val")).tolist() == [3] * 17
    assert source.notes == ("no val was given: 51 images of train, seed 0",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[300].pop(), "line 302: expected 21 columns as in the header, got 20"),
        (lambda lines: lines[300].append("0"), "line 302: expected 21 columns as in the header, got 22"),
        (lambda lines: lines[300].__setitem__(5, "2"), f"line 302: column {HEADER[5]}: expected 0 or 1, got '2'"),
        (lambda lines: lines[300].__setitem__(5, ""), f"line 302: column {HEADER[5]}: expected 0 or 1, got ''"),
        (lambda lines: lines[300].__setitem__(5, "0.0"), "got '0.0'"),
        (lambda lines: lines[300].__setitem__(0, ""), "line 302: Filename: expected the name of an image"),
        (lambda lines: lines[300].clear(), "line 302: expected 21 columns as in the header, got 1"),
    ],
)
@pytest.mark.parametrize("block", [97, 1 << 22])
def test_mistakes_are_reported_with_their_line(tmp_path, monkeypatch, change, message, block):
    monkeypatch.setattr(sewer_ml, "BLOCK", block)
    lines = [row(f"{n:08d}.png", "RB") for n in range(701)]
    change(lines)
    write(tmp_path / "SewerML_Train.csv", lines)
    assert message in refused(tmp_path)


def test_wrong_headers_and_empty_files(tmp_path):
    path = tmp_path / "SewerML_Val.csv"
    path.write_text("")
    assert "expected a column called Filename, got nothing" in refused(tmp_path)
    path.write_text(",".join(HEADER) + "\n\n")
    assert "got no image" in refused(tmp_path)
    write(path, [row("a.png")[:-3]], HEADER[:-3])
    assert "SewerML_Val.csv: expected a column called OK" in refused(tmp_path)


def test_a_defect_column_that_disagrees_is_noted(tmp_path):
    lines = [row("a.png", "RB"), row("b.png")]
    lines[1][-1] = "1"
    write(tmp_path / "SewerML_Val.csv", lines)
    assert "in 1 lines the column Defect" in read_sewer_ml(tmp_path, "x").notes[0]


@given(
    st.lists(
        st.tuples(st.text("abcäöü/.-_ 019", min_size=1, max_size=23), st.integers(0, 2**17 - 1)),
        min_size=1,
        max_size=41,
    ),
    st.integers(1, 301),
    st.booleans(),
    st.booleans(),
)
def test_as_the_csv_module_reads_it(tmp_path_factory, rows, block, quoted, ended):
    folder = tmp_path_factory.mktemp("sewer")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL)
    writer.writerows(
        [HEADER, *(row(name, *(code for bit, code in enumerate(CODES) if bits >> bit & 1)) for name, bits in rows)]
    )
    content = text.getvalue() if ended else text.getvalue().rstrip("\n")
    (folder / "SewerML_Train.csv").write_text(content, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sewer_ml, "BLOCK", block)
        source = read_sewer_ml(folder, "x")
    oracle = list(csv.DictReader(io.StringIO(content)))
    assert [source.file(index) for index in range(len(source))] == [line["Filename"] for line in oracle]
    assert source.labels.tolist() == [[int(line[code]) for code in CODES] for line in oracle]


def test_half_a_million_rows_in_little_time_and_memory(tmp_path):
    count = 500_009
    codes = np.random.default_rng(0).integers(0, 17, 97)
    tails = [",".join(row("", CODES[code])[1:]) for code in codes]
    text = "".join(f"{n:08d}.png,{tails[n % 97]}\n" for n in range(count))
    (tmp_path / "SewerML_Train.csv").write_text(",".join(HEADER) + "\n" + text)
    start = time.process_time()
    source = read_sewer_ml(tmp_path, "x")
    assert time.process_time() - start < 5  # ten times what it takes: a loop over rows would need more
    assert len(source) == count
    assert source.file(count - 1) == f"{count - 1:08d}.png"
    kept = source.labels.nbytes + len(source.images.names.buffer) + source.images.names.offsets.nbytes
    assert kept < 40 * count  # bytes
