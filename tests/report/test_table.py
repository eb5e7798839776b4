"""Tables in three forms, each cell one cell, each file with where its figures come from."""

import csv

import pytest

from foveal.errors import FovealError
from foveal.report.table import UNDEFINED, Table, in_latex, in_markdown, plain_name, write_tables


def test_a_grid_in_three_forms():
    grid = Table(["name", "a_b"], [["x|y", "1,5"], ["<i>", "50 %"]])
    assert grid.markdown() == "| name | a\\_b |\n| --- | ---: |\n| x\\|y | 1,5 |\n| \\<i\\> | 50 % |\n"
    assert grid.csv() == 'name,a_b\nx|y,"1,5"\n<i>,50 %\n'
    assert grid.latex().splitlines()[2:5] == [r"name & a\_b \\", r"\midrule", r"x|y & 1,5 \\"]
    assert in_latex("\\{a}~^&%$#_ 1–2") == r"\textbackslash{}\{a\}\textasciitilde{}\textasciicircum{}\&\%\$\#\_ 1--2"
    assert in_markdown("a\n*b*") == r"a \*b\*"
    with pytest.raises(FovealError, match="a row of a table: expected 2 cells, got 1"):
        Table(["a", "b"], [["c"]])


def test_what_is_undefined_is_nothing_in_a_csv():
    grid = Table(["name", "value"], [["a", UNDEFINED], ["b", "3"]])
    assert grid.csv() == "name,value\na,\nb,3\n"
    assert "| a | – |" in grid.markdown()


ORIGIN = {"commit": "abc_1", "machine": "a\nb"}


def test_every_file_says_what_the_figures_are_and_where_they_come_from(tmp_path):
    tables = [
        Table(["part", "score"], [["x", "1"]], title="first"),
        Table(["part", "score"], [["y", UNDEFINED]], title="second"),
    ]
    files = write_tables(tmp_path / "new", "t", tables, "Parts", "Split test, 3 seeds.", ORIGIN)
    assert [file.name for file in files] == ["t.md", "t.csv", "t.tex"]
    for file in files:
        text = file.read_text(encoding="utf-8").replace("\\_", "_")
        for word in ("Parts", "Split test, 3 seeds.", "abc_1", "a b", "first", "second"):
            assert word in text, (file.name, word)
    assert files[2].read_text().count(r"\begin{table}") == 2


def test_the_rows_of_a_csv_can_be_read(tmp_path):
    _, file, _ = write_tables(
        tmp_path, "t", [Table(["part", "score"], [["x,y", "1"], ["z", UNDEFINED]])], "Parts", "One seed.", ORIGIN
    )
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert list(csv.DictReader(lines)) == [{"part": "x,y", "score": "1"}, {"part": "z", "score": ""}]


def test_names_of_files():
    assert plain_name("resnet-18, flops of icam/31k: l1.5") == "resnet-18-flops-of-icam-31k-l1.5"
