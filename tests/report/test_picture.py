"""Pictures: the colours, the cells, the file; and blocks in the terminal."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from foveal.errors import FovealError
from foveal.report.picture import PAPER, Picture, ascii_of, cells, colours, draw, save, sheet, shrunk
from foveal.report.text_matrix import blocks


def lightness(rgb: np.ndarray) -> np.ndarray:
    """CIE L*, from sRGB."""
    linear = np.where(rgb <= 10.31, rgb / 255 / 12.92, ((rgb / 255 + 0.055) / 1.055) ** 2.4)
    return 116 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 16


def test_more_is_darker_everywhere() -> None:
    light = lightness(colours(np.linspace(0, 1, 101)[None])[0].astype(float))
    assert (np.diff(light) < 0).all()
    assert light[0] > 95
    assert light[-1] < 25


def test_signed_colours_are_lightest_at_zero_and_equal_on_both_sides() -> None:
    light = lightness(colours(np.linspace(0, 1, 101)[None], signed=True)[0].astype(float))
    assert light.argmax() == 50
    assert (np.diff(light[:51]) > 0).all()
    assert (np.diff(light[50:]) < 0).all()
    assert np.abs(light - light[::-1]).max() < 8


def test_a_cell_is_a_square_of_whole_pixels() -> None:
    image = np.asarray(cells(np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.25]]), 5))
    assert image.shape == (10, 15, 3)
    want = colours(np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.25]]))
    for i in range(10):
        for j in range(15):
            assert tuple(image[i, j]) == tuple(want[i // 5, j // 5])


def test_large_cells_carry_a_grid() -> None:
    image = np.asarray(cells(np.ones((2, 3)), 9))
    assert {tuple(pixel) for pixel in image[8]} == {tuple(pixel) for pixel in image[:, 17]} == {PAPER}
    assert tuple(image[7, 7]) != PAPER
    assert PAPER not in {tuple(pixel) for pixel in np.asarray(cells(np.ones((2, 3)), 7)).reshape(-1, 3)}


def test_a_picture_shows_its_panels_in_place() -> None:
    # A panel of ones among zeros is found in the drawing, on its side, and in one piece.
    zeros, ones = np.zeros((5, 7)), np.ones((5, 7))
    image = np.asarray(draw(Picture([zeros, ones], "two", labels=("none", "all"))))
    calm = colours(np.array([[0.78]]))[0, 0]
    hits = (image == calm).all(-1)[:-60]  # without the legend
    rows, columns = np.nonzero(hits)
    assert columns.min() > image.shape[1] / 2
    cell = 300 // 7
    assert hits.sum() == 5 * 7 * (cell - 1) ** 2  # one grid line per cell
    assert rows.max() - rows.min() == 5 * cell - 2
    assert columns.max() - columns.min() == 7 * cell - 2


def test_every_size_can_be_drawn() -> None:
    for shape in ((1, 1), (1, 40), (40, 1), (600, 3), (13, 700)):
        image = draw(Picture([np.full(shape, 0.5)], "Łong — name × with · signs", "A caption " * 20))
        assert image.width >= shape[1]
        assert image.height >= shape[0]
        assert (
            sheet({"a": [Picture([np.full(shape, 0.5)], "a name that is far too long for its tile")]}, "all").width
            > 1000
        )


def test_panels_of_different_shapes_stand_beside_each_other() -> None:
    picture = Picture(
        [np.zeros((11, 7)), np.ones((7, 11)), np.ones((2, 2)), np.zeros((3, 3))], "ragged", labels=("a", "b", "c", "d")
    )
    assert picture.largest == (11, 11)
    assert draw(picture).width > 4 * 11 * (300 // 11)


@pytest.mark.parametrize(
    ("panels", "labels", "says"),
    [
        ([np.full((2, 2), 1.5)], (), r"numbers in \[0, 1\], got 1.5"),
        ([np.array([[0.0, np.nan]])], (), r"numbers in \[0, 1\]"),
        ([np.zeros(3)], (), r"\(N, M\), not empty, got \(3,\)"),
        ([np.zeros((0, 3))], (), "not empty"),
        ([], (), "at least one"),
        ([np.zeros((2, 2))], ("a", "b"), "expected 1, one per panel, got 2"),
    ],
)
def test_what_cannot_be_drawn_is_refused(panels: list[np.ndarray], labels: tuple[str, ...], says: str) -> None:
    with pytest.raises(FovealError, match=says):
        Picture(panels, "bad", labels=labels)


def test_ascii_of_drops_nothing_that_is_ascii() -> None:
    assert ascii_of("h × w ≤ 5 − é") == "h x w <= 5 - e"
    assert ascii_of("plain: a_b(1)") == "plain: a_b(1)"


def test_save_writes_a_png_and_nothing_else(tmp_path: Path) -> None:
    image = Image.new("RGB", (3, 2), (1, 2, 3))
    path = tmp_path / "a.png"
    path.write_text("old")
    save(image, path)
    assert [file.name for file in tmp_path.iterdir()] == ["a.png"]
    with Image.open(path) as read:
        assert read.format == "PNG"
        assert read.size == (3, 2)


def test_a_save_that_fails_leaves_the_old_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    path.write_text("old")

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(FovealError, match=r"cannot write .*a\.png: .*No space left on device"):
        save(Image.new("RGB", (3, 2)), path)
    assert [file.name for file in tmp_path.iterdir()] == ["a.png"]
    assert path.read_text() == "old"


def test_a_path_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    image = Image.new("RGB", (3, 2))
    file, pipe = tmp_path / "file", tmp_path / "pipe"
    file.write_text("")
    os.mkfifo(pipe)  # as a device: it must not be replaced by a file
    for path in (tmp_path, file / "below.png", pipe):
        with pytest.raises(FovealError, match="cannot write") as caught:
            save(image, path)
        assert "\n" not in str(caught.value)
    assert pipe.is_fifo()


def test_half_blocks_by_hand() -> None:
    matrix = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 1]], dtype=float)
    assert blocks(matrix, columns=80) == ["┌────┐", "│█▄▀ │", "│▀  ▀│", "└────┘"]


def test_shades_by_hand() -> None:
    matrix = np.array([[0, 0.1, 0.5], [0.51, 0.75, 1]])
    assert blocks(matrix, columns=80) == ["┌──────┐", "│  ░░▒▒│", "│▓▓▓▓██│", "└──────┘"]


def test_ascii_where_the_terminal_knows_nothing_else() -> None:
    assert blocks(np.eye(2), columns=80, encoding="ascii") == ["+----+", "|@@  |", "|  @@|", "+----+"]
    assert blocks(np.eye(2), columns=80, encoding="no-such-code") == blocks(np.eye(2), columns=80, encoding="latin-1")


@given(
    rows=st.integers(1, 40),
    columns=st.integers(1, 300),
    width=st.integers(4, 120),
    encoding=st.sampled_from(["utf-8", "ascii", "cp437"]),
    binary=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_blocks_fit_the_terminal_and_its_encoding(
    rows: int, columns: int, width: int, encoding: str, binary: bool
) -> None:
    matrix = np.random.default_rng(rows * columns).random((rows, columns))
    lines = blocks(matrix.round() if binary else matrix, columns=width, encoding=encoding)
    assert len({len(line) for line in lines}) == 1
    assert len(lines[0]) <= width
    "\n".join(lines).encode(encoding)


def test_shrunk_is_means() -> None:
    matrix = np.arange(15.0).reshape(3, 5)
    assert shrunk(matrix, 2).tolist() == [[3.0, 5.0, 6.5], [10.5, 12.5, 14.0]]
    assert shrunk(matrix, 1).tolist() == matrix.tolist()
