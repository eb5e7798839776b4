"""Image files that are none, lists of them, and names that steer a terminal:
`foveal predict` with the weights that come with foveal.
"""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hostile.broken import file, together
from hostile.data_sets import class_folders, loop, photo
from hostile.situation import Situation, check, params
from PIL import Image
from training.little import ENVIRONMENT

from foveal.runtime import image

PACKAGED = "icam-fast-pipes"


def ghostscript(place):
    """A `gs` that says that it was started."""
    (place / "bin").mkdir()
    program = place / "bin/gs"
    program.write_text("#!/bin/sh\necho started > ../started\necho started > started\nexit 1\n")
    program.chmod(0o755)
    (place / "x.jpg").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
    )


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
    Situation(
        "predict: a number that ends nowhere",
        ("predict", PACKAGED, "photo.png", "--threshold", "-1e5"),
        "--threshold",
        photo(),
    ),
    Situation(
        "predict: a device without numbers",
        ("predict", PACKAGED, "photo.png", "--device", "meta"),
        "meta",
        photo(),
        quick=True,
    ),
    Situation(
        "predict: a device that nobody has",
        ("predict", PACKAGED, "photo.png", "--device", "cuda:99"),
        "device",
        photo(),
    ),
    Situation("predict: no image", ("predict", PACKAGED, "-"), "expected images, got none"),
    Situation(
        "predict: somebody's table as the model",
        ("predict", "labels.csv", "photo.png"),
        "",
        together(photo(), file("labels.csv", b"file,label\n")),
    ),
    Situation(
        "predict: --out is an image",
        ("predict", PACKAGED, "photo.png", "--out", "photo.png"),
        "another name",
        photo(),
        quick=True,
    ),
    Situation(
        "predict: --out is an image of a folder",
        ("predict", PACKAGED, "d", "--out", "d/a/0.png"),
        "another name",
        class_folders("a", "b"),
    ),
    Situation(
        "explain: --out is the image", ("explain", PACKAGED, "photo.png", "--out", "photo.png"), "another name", photo()
    ),
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


def test_large_images_are_decoded_one_at_a_time(place, monkeypatch):
    monkeypatch.setattr(image, "LARGE", 16)
    Image.new("RGB", (5, 7)).save(place / "large.png")
    decoding, at_once, decode = [], [], image._frame

    def watched(*arguments):
        decoding.append(1)
        at_once.append(len(decoding))
        time.sleep(0.02)
        try:
            return decode(*arguments)
        finally:
            decoding.pop()

    monkeypatch.setattr(image, "_frame", watched)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(image.open_image, [place / "large.png"] * 8))
    assert at_once == [1] * 8


@pytest.mark.slow
def test_bombs_take_the_memory_of_few(place):
    """One of 9999 × 9999 pixels takes 0.8 GB while it is decoded: four stay below 2 GB, the library included."""
    (place / "b").mkdir()
    Image.new("RGBA", (9999, 9999), (1, 2, 3, 4)).save(place / "b/0.png", compress_level=1)
    for number in range(1, 4):
        os.link(place / "b/0.png", place / f"b/{number}.png")
    code = (  # VmHWM is this process's own; what getrusage gives may be the peak of the process that started it
        "import pathlib, re, sys; from foveal.app.cli import main; main(sys.argv[1:]); "
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', pathlib.Path('/proc/self/status').read_text())[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "predict", PACKAGED, "b"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=120,
        check=True,
    )
    *rows, most = done.stdout.splitlines()
    assert len(rows) == 5
    assert int(most) < 2_000_000, f"{most} kB"
