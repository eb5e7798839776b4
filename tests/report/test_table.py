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


def test_a_csv_holds_numbers_as_machines_read_them():
    rows = [["1,000", "31,793", "-6.9 (-24.5 to +6.4)", "1.5 ± 0.25", "+3"], ["b", "900", UNDEFINED, "2.0", "−4"]]
    grid = Table(["class", "parameters", "against a (95 %)", "BLEU", "gain"], rows)
    assert "| 1,000 | 31,793 | -6.9 (-24.5 to +6.4) | 1.5 ± 0.25 | +3 |" in grid.markdown()
    against = "against a (95 %)"
    assert list(csv.reader(grid.csv().splitlines())) == [
        ["class", "parameters", against, f"{against} low", f"{against} high", "BLEU", "BLEU spread", "gain"],
        ["1,000", "31793", "-6.9", "-24.5", "6.4", "1.5", "0.25", "3"],
        ["b", "900", "", "", "", "2.0", "", "-4"],
    ]


def test_a_column_without_a_name_of_its_own_has_its_number_in_a_csv():
    assert Table(["", "", "a", "a"], [["x", "y", "1", "2"]], words=2).csv() == "column 1,column 2,a,column 4\nx,y,1,2\n"


def test_several_tables_are_one_csv_with_one_head(tmp_path):
    tables = [
        Table(["figure", "mean"], [["F1", "0.5"]], title="all"),
        Table(["run", "mean", "F1"], [["seed0", "0.5", "1,000"]], title="Runs"),
    ]
    _, file, _ = write_tables(tmp_path, "t", tables, "Parts", "One seed.", ORIGIN)
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert list(csv.reader(lines)) == [
        ["table", "figure", "mean", "run", "F1"],
        ["all", "F1", "0.5", "", ""],
        ["Runs", "", "0.5", "seed0", "1000"],
    ]


def test_names_of_files():
    assert plain_name("resnet-18, flops of icam/31k: l1.5") == "resnet-18-flops-of-icam-31k-l1.5"
