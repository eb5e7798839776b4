"""Data sets as people really have them; `foveal data` and what training makes of them."""

import os

import pytest
from hostile.broken import file, pipe, together
from hostile.data_sets import class_folders, loop, looped_folder, table
from hostile.situation import Situation, check, params

REFUSED = [
    Situation(
        f"data: {name}", ("data", "d"), line, make, quick=name in ("one file under two names", "a class called file")
    )
    for name, line, make in (
        ("a class of one blank", "printable|blank|names of classes", class_folders(" ", "b")),
        (
            "a class with NUL",
            "printable",
            table("file,label\n0.png,a\x00b\n{rows}".replace("0.png,a\x00b", "90.png,a\x00b")),
        ),
        (
            "a class with an escape sign",
            "printable",
            table("file,label\n{rows}9.png,\x1b[31mred\n".replace("9.png", "99.png")),
        ),
        ("a class called file", "no class that is called file", table("file,label\n{rows}99.png,file\n")),
        ("a class called error", "no class that is called", table("file,label\n{rows}99.png,error\n")),
        ("a class that is a formula", "formula", table("file,label\n{rows}99.png,=cmd|' /C calc'!A0\n")),
        ("a class that is no UTF-8", r"printable.*udcff", class_folders(b"cl\xff", "b")),
        ("one file under two names", "0.png has another label than in line 2", table("file,label\n{rows}./0.png,b\n")),
        ("one file under two names, through ..", "another label", table("file,label\n{rows}x/../0.png,b\n")),
        ("a column without a name", "none for column 3", table("file,label,\n0.png,a,\n1.png,b,\n")),
        ("separators without classes", "between the ;", table("file,label\n{rows}99.png,;;\n")),
        (
            "a link to itself",
            "self|links",
            together(
                looped_folder,
                file("d/labels.csv", b"file,label\nc/x.png,a\nb/0.png,b\n"),
                lambda place: (place / "d/labels.csv").unlink(),
            ),
        ),
        ("a folder that is empty", "class", lambda place: (place / "d").mkdir()),
    )
] + [
    Situation("data: ~ of nobody", ("data", "~nobodyatall/x"), "nobodyatall"),
    Situation("data: a pipe", ("data", "x.csv"), "plain file", pipe("x.csv"), apart=True),
    Situation(
        "data: a pipe as labels.csv",
        ("data", "d"),
        "",
        together(class_folders("a", "b"), pipe("d/labels.csv")),
        status=0,
        apart=True,
    ),
    Situation("data: a negative number", ("data", "pipes", "--seed", "-1"), "seed: expected at least 0"),
    Situation("data: a seed without end", ("data", "pipes", "--seed", "9" * 20), "seed"),
    Situation(
        "train: a class that is no UTF-8",
        ("train", "classify", "--data", "d", "--size", "32", "--out", "new"),
        "printable",
        class_folders(b"cl\xff", "b"),
    ),
]

NOTED = [
    Situation(f"data: {name}", ("data", "d"), "", make, status=0, printed=line)
    for name, line, make in (
        (
            "classes that differ in case",
            "differ only in case: Crack, crack",
            table("file,label\n0.png,Crack\n1.png,crack\n2.png,Crack\n3.png,crack\n4.png,crack\n5.png,Crack\n"),
        ),
        (
            "a class that is never trained on",
            "without a training image: b",
            table("file,label,split\n0.png,a,train\n1.png,b,val\n2.png,a,val\n3.png,b,test\n"),
        ),
        (
            "many classes of three",
            "divided 33% · 33% · 33%, so that",
            class_folders(*(f"c{number}" for number in range(30)), count=3),
        ),
        ("a link that leads up", "2 classes", loop),
        (
            "names that are no UTF-8",
            "2 classes",
            together(
                class_folders("a", "b"),
                lambda place: (place / "d/a/0.png").rename(place / os.fsdecode(b"d/a/f\xff.png")),
            ),
        ),
    )
]
CHECKED = [
    Situation(
        "data --check: every file is missing",
        ("data", "d", "--check"),
        "",
        table("file,label\ngone0.png,a\ngone1.png,b\ngone2.png,a\ngone3.png,b\n", 0),
        status=1,
        error=False,
        printed="0 good, 4 bad",
    ),
    Situation(
        "data --check: an escape sign in a file's name",
        ("data", "d", "--check"),
        "",
        together(class_folders("a", "b"), file("d/a/\x1b[31mred.png", b"x")),
        status=1,
        error=False,
        printed=r"\\x1b\[31mred.png",
    ),
]


@pytest.mark.parametrize("situation", params([*REFUSED, *NOTED]))
def test_data(situation, place, capfd):
    check(situation, place, capfd)


@pytest.mark.parametrize("situation", params(CHECKED))
def test_checked_data(situation, place, capfd):
    """Exit status 1: the set was read, and something is wrong with it."""
    check(situation, place, capfd)
