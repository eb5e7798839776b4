"""Data sets as people really have them, and image files that are none: `foveal data`, and `foveal predict` with images."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hostile.broken import file, pipe, together
from hostile.situation import Situation, check, params
from PIL import Image
from training.little import ENVIRONMENT, image

PACKAGED = "icam-fast-pipes"


def table(text, count=20, folder="d"):
    """Makes a folder with images 0.png … and this labels.csv; {rows} stands for a row `N.png,a` or `N.png,b` of each."""

    def make(place):
        (place / folder).mkdir()
        for number in range(count):
            Image.fromarray(image(number, number % 2)).save(place / folder / f"{number}.png")
        rows = "".join(f"{number}.png,{'ab'[number % 2]}\n" for number in range(count))
        (place / folder / "labels.csv").write_text(text.replace("{rows}", rows), encoding="utf-8")

    return make


def class_folders(*names, count=6, folder="d"):
    def make(place):
        for number, name in enumerate(names):
            inside = place / folder / os.fsdecode(name)
            inside.mkdir(parents=True)
            for one in range(count):
                Image.fromarray(image(one, number % 2)).save(inside / f"{one}.png")

    return make


def loop(place):
    class_folders("a", "b")(place)
    (place / "d/b/up").symlink_to("../../d")
    (place / "d/b/self.png").symlink_to("self.png")


def looped_folder(place):
    class_folders("a", "b")(place)
    (place / "d/c").symlink_to("c")


REFUSED = [
    Situation(f"data: {name}", ("data", "d"), line, make, quick=name in ("one file under two names", "a class called file"))
    for name, line, make in (
        ("a class of one blank", "printable|blank|names of classes", class_folders(" ", "b")),
        ("a class with NUL", "printable", table("file,label\n0.png,a\x00b\n{rows}".replace("0.png,a\x00b", "90.png,a\x00b"))),
        ("a class with an escape sign", "printable", table("file,label\n{rows}9.png,\x1b[31mred\n".replace("9.png", "99.png"))),
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
                looped_folder, file("d/labels.csv", b"file,label\nc/x.png,a\nb/0.png,b\n"), lambda place: (place / "d/labels.csv").unlink()
            ),
        ),
        ("a folder that is empty", "class", lambda place: (place / "d").mkdir()),
    )
] + [
    Situation("data: ~ of nobody", ("data", "~nobodyatall/x"), "nobodyatall"),
    Situation("data: a pipe", ("data", "x.csv"), "plain file", pipe("x.csv"), apart=True),
    Situation(
        "data: a pipe as labels.csv", ("data", "d"), "", together(class_folders("a", "b"), pipe("d/labels.csv")), status=0, apart=True
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
        ("many classes of three", "divided 33% · 33% · 33%, so that", class_folders(*(f"c{number}" for number in range(30)), count=3)),
        ("a link that leads up", "2 classes", loop),
        (
            "names that are no UTF-8",
            "2 classes",
            together(class_folders("a", "b"), lambda place: (place / "d/a/0.png").rename(place / os.fsdecode(b"d/a/f\xff.png"))),
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


def photo(name="photo.png", side=64):
    def make(place):
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (side, side, 3), np.uint8)).save(place / os.fsdecode(name))

    return make


def ghostscript(place):
    """A `gs` that says that it was started."""
    (place / "bin").mkdir()
    program = place / "bin/gs"
    program.write_text("#!/bin/sh\necho started > ../started\necho started > started\nexit 1\n")
    program.chmod(0o755)
    (place / "x.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n")


IMAGES = [
    Situation(
        "predict: PostScript called .jpg",
        ("predict", PACKAGED, "x.jpg"),
        "1 image, 1 could not be read",
        ghostscript,
        apart=True,
        environment={"PATH": "bin:/usr/bin:/bin"},
        error=False,
        printed="not an image",
        quick=True,
    ),
    Situation(
        "predict: a threshold below 0",
        ("predict", PACKAGED, "photo.png", "--threshold", "-1"),
        "--threshold: expected a number, at least 0",
        photo(),
        quick=True,
    ),
    Situation("predict: a batch below 0", ("predict", PACKAGED, "photo.png", "--batch", "-5"), "--batch", photo()),
    Situation("predict: a number that ends nowhere", ("predict", PACKAGED, "photo.png", "--threshold", "-1e5"), "--threshold", photo()),
    Situation("predict: a device without numbers", ("predict", PACKAGED, "photo.png", "--device", "meta"), "meta", photo(), quick=True),
    Situation("predict: a device that nobody has", ("predict", PACKAGED, "photo.png", "--device", "cuda:99"), "device", photo()),
    Situation("predict: no image", ("predict", PACKAGED, "-"), "expected images, got none"),
    Situation(
        "predict: somebody's table as the model",
        ("predict", "labels.csv", "photo.png"),
        "",
        together(photo(), file("labels.csv", b"file,label\n")),
    ),
    Situation("predict: --out is an image", ("predict", PACKAGED, "photo.png", "--out", "photo.png"), "another name", photo(), quick=True),
    Situation(
        "predict: --out is an image of a folder", ("predict", PACKAGED, "d", "--out", "d/a/0.png"), "another name", class_folders("a", "b")
    ),
    Situation("explain: --out is the image", ("explain", PACKAGED, "photo.png", "--out", "photo.png"), "another name", photo()),
    Situation("predict: ~ of nobody", ("predict", "~nobodyatall/x", "photo.png"), "nobodyatall", photo()),
]


@pytest.mark.parametrize("situation", params(IMAGES))
def test_images(situation, place, capfd):
    check(situation, place, capfd)


WORKS = [
    Situation(
        "a list with a mark of UTF-8",
        ("predict", PACKAGED, "-"),
        "",
        photo(),
        status=0,
        stdin=b"\xef\xbb\xbfphoto.png\n",
        printed="^file,.*\nphoto.png,",
    ),
    Situation(
        "a name that is no UTF-8 in a list",
        ("predict", PACKAGED, "-"),
        "",
        photo(b"b\xff.png"),
        status=0,
        stdin=b"b\xff.png\n",
        apart=True,
        printed="\nb\udcff.png,",
    ),
    Situation(
        "a name that is no UTF-8, in JSON",
        ("predict", PACKAGED, ".", "--format", "jsonl"),
        "",
        photo(b"b\xff.png"),
        status=0,
        apart=True,
        printed=r"b\\udcff.png",
    ),
    Situation(
        "an escape sign in a table",
        ("predict", PACKAGED, ".", "--format", "table"),
        "",
        photo("\x1b[31mred.png"),
        status=0,
        printed=r"\\x1b\[31mred",
    ),
    Situation("each image once through links", ("predict", PACKAGED, "d/**/*.png"), "", loop, status=0, changes=()),
]


@pytest.mark.parametrize("situation", params(WORKS))
def test_works(situation, place, capfd):
    ended = check(situation, place, capfd)
    if "links" in situation.name:
        assert len([line for line in ended.stdout.splitlines() if ".png" in line]) == 13


@pytest.mark.slow
def test_bombs_are_decoded_one_at_a_time(place):
    """9999 × 9999 pixels of 16 bits in 0.8 MB: eight of them stay below 2 GB, the library included."""
    (place / "b").mkdir()
    Image.new("RGBA", (9999, 9999), (1, 2, 3, 4)).save(place / "b/0.png", compress_level=1)
    for number in range(1, 4):
        os.link(place / "b/0.png", place / f"b/{number}.png")
    code = "import resource, sys; from foveal.app.cli import main; main(sys.argv[1:]); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    done = subprocess.run(
        [sys.executable, "-c", code, "predict", PACKAGED, "b"], capture_output=True, text=True, env=ENVIRONMENT, timeout=120, check=True
    )
    *rows, most = done.stdout.splitlines()
    assert len(rows) == 5
    assert int(most) < 2_000_000, f"{most} kB"
