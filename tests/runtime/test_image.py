"""Every way an image can be saved gives RGB; every way a file can be bad gives one line that says which."""

import contextlib
import io
import os
import pickle
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from foveal.errors import FovealError
from foveal.runtime.image import BadImage, kind_of, open_image

RED, GREEN = (250, 10, 20), (10, 200, 30)


def saved(path, image, **how):
    image.save(path, **how)
    return path


def two_by_three():
    """Red above green: 2 wide, 3 high, so that no turn goes unseen."""
    image = Image.new("RGB", (2, 3), GREEN)
    image.putpixel((0, 0), RED)
    return image


def reason(path, size=None):
    with pytest.raises(BadImage) as bad:
        open_image(path, size)
    assert "\n" not in str(bad.value)
    assert str(bad.value).startswith(str(path))
    return bad.value.reason


@pytest.mark.parametrize("suffix", ["png", "bmp", "tiff", "ppm"])
def test_pixels_come_as_they_were_saved(tmp_path, suffix):
    pixels = open_image(saved(tmp_path / f"a.{suffix}", two_by_three()))
    assert pixels.dtype == np.uint8
    assert pixels.shape == (3, 2, 3)
    assert pixels[0, 0].tolist() == list(RED)
    assert (pixels.reshape(-1, 3)[1:] == GREEN).all()
    pixels[0, 0] = 7  # it is the caller's own


@pytest.mark.parametrize(
    ("orientation", "place"),
    [(1, (0, 0)), (2, (0, 1)), (3, (2, 1)), (4, (2, 0)), (5, (0, 0)), (6, (0, 2)), (7, (1, 2)), (8, (1, 0))],
)
def test_exif_turns(tmp_path, orientation, place):
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = open_image(saved(tmp_path / "a.png", two_by_three(), exif=exif))
    assert pixels.shape == ((3, 2, 3) if orientation < 5 else (2, 3, 3))
    assert pixels[place].tolist() == list(RED)


def test_a_broken_exif_block_turns_nothing(tmp_path):
    assert open_image(saved(tmp_path / "a.jpg", two_by_three(), exif=b"Exif\0\0garbage!")).shape == (3, 2, 3)


@pytest.mark.parametrize(
    ("mode", "value", "expected"),
    [("L", 77, 77), ("1", 1, 255), ("I;16", 65535, 255), ("I;16", 257 * 41, 41), ("I", 65535, 255)],
)
def test_greys(tmp_path, mode, value, expected):
    image = (
        Image.fromarray(np.full((5, 3), value, {"I;16": np.uint16, "I": np.int32}[mode]))
        if "I" in mode
        else Image.new(mode, (3, 5), value)
    )
    assert image.mode == mode
    assert (open_image(saved(tmp_path / "a.tiff", image)) == expected).all()


def test_sixteen_bit_png(tmp_path):
    ramp = np.array([[0, 128, 129, 257, 32768, 65535]], np.uint16)
    pixels = open_image(saved(tmp_path / "a.png", Image.fromarray(ramp)))
    assert pixels[0, :, 1].tolist() == [round(int(value) / 257) for value in ramp[0]] == [0, 0, 1, 1, 128, 255]


def test_what_is_see_through_lies_over_black(tmp_path):
    half = Image.new("RGBA", (3, 5), (200, 100, 50, 128))
    assert open_image(saved(tmp_path / "a.png", half))[0, 0].tolist() == [100, 50, 25]
    assert open_image(saved(tmp_path / "b.png", Image.new("LA", (3, 5), (200, 0)))).max() == 0
    palette = Image.new("P", (3, 5), 1)
    palette.putpalette([0, 0, 0, 90, 80, 70])
    assert open_image(saved(tmp_path / "c.png", palette))[0, 0].tolist() == [90, 80, 70]
    assert open_image(saved(tmp_path / "d.png", palette, transparency=1)).max() == 0
    # Pillow warns of this one
    assert open_image(saved(tmp_path / "e.png", palette, transparency=bytes([9, 0]))).max() == 0
    assert open_image(saved(tmp_path / "f.png", Image.new("RGB", (3, 5), RED), transparency=RED)).max() == 0


def test_cmyk_and_animation(tmp_path):
    ink = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    assert np.abs(open_image(saved(tmp_path / "a.jpg", ink, quality=95))[8, 8].astype(int) - (255, 0, 0)).max() < 6
    frames = [Image.new("RGB", (3, 5), colour) for colour in ((255, 0, 0), (0, 0, 255))]
    assert open_image(saved(tmp_path / "a.gif", frames[0], save_all=True, append_images=frames[1:]))[0, 0].tolist() == [
        255,
        0,
        0,
    ]


def test_size_is_exact_and_near_the_full_decode(tmp_path):
    y, x = np.mgrid[0:907, 0:1201]
    smooth = np.stack([x * 255 / 1200, y * 255 / 906, 128 + 100 * np.sin(x / 90) * np.cos(y / 70)], -1).astype(np.uint8)
    path = saved(tmp_path / "a.jpg", Image.fromarray(smooth), quality=95)
    small = open_image(path, 101)
    assert small.shape == (101, 101, 3)
    full = np.asarray(Image.fromarray(open_image(path)).resize((101, 101), Image.Resampling.BILINEAR))
    assert np.abs(small.astype(int) - full).max() <= 3
    assert open_image(path, 1300).shape == (1300, 1300, 3)


def test_bad_files_say_why(tmp_path):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (61, 67, 3), np.uint8))
    for suffix in ("jpg", "png", "tiff", "bmp", "gif"):
        whole = saved(tmp_path / f"a.{suffix}", noise).read_bytes()
        (tmp_path / f"cut.{suffix}").write_bytes(whole[: len(whole) // 2])
        assert "damaged" in reason(tmp_path / f"cut.{suffix}"), suffix
        (tmp_path / f"cut.{suffix}").write_bytes(whole[:5])
        assert reason(tmp_path / f"cut.{suffix}"), suffix
    (tmp_path / "empty.jpg").touch()
    assert reason(tmp_path / "empty.jpg") == "is empty (0 bytes)"
    (tmp_path / "text.jpg").write_text("no image at all")
    assert "not an image" in reason(tmp_path / "text.jpg")
    assert reason(tmp_path / "nowhere.jpg") == "no such file"
    assert "folder" in reason(tmp_path)
    assert reason(tmp_path / "a.png" / "inside.png")
    assert reason(str(tmp_path / "nul\0.png"))
    os.mkfifo(tmp_path / "pipe.png")
    assert "plain file" in reason(tmp_path / "pipe.png")
    assert "floating" in reason(saved(tmp_path / "float.tiff", Image.new("F", (3, 5), 0.5)))
    assert "65536" in reason(saved(tmp_path / "deep.tiff", Image.new("I", (3, 5), 65536)))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path):
    path = saved(tmp_path / "a.png", two_by_three())
    path.chmod(0)
    assert "permission" in reason(path)


def test_a_refused_permission_is_reported(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    path = saved(tmp_path / "a.png", two_by_three())
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(BadImage, match="permission denied"):
        open_image(path)


@pytest.mark.parametrize("side", [11_000, 20_000])
def test_a_huge_image_is_refused(tmp_path, side):
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    (tmp_path / "bomb.png").write_bytes(
        b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")
    )
    assert "too large" in reason(tmp_path / "bomb.png", 32)


def test_a_huge_jpeg_is_opened_small(tmp_path):
    # Pillow itself refuses this one at its full size
    path = saved(tmp_path / "huge.jpg", Image.new("L", (15_000, 13_000), 90), quality=50)
    assert "too large" in reason(path)
    assert np.abs(open_image(path, 64).astype(int) - 90).max() <= 1
    assert kind_of(path) == ("JPEG L", 15_000, 13_000)


def test_the_error_crosses_processes():
    bad = pickle.loads(pickle.dumps(BadImage("a\nb.jpg", "is\nodd")))
    assert (bad.path, bad.reason, str(bad)) == ("a\nb.jpg", "is odd", "a b.jpg: is odd")


def test_a_size_is_a_size(tmp_path):
    path = saved(tmp_path / "a.png", two_by_three())
    for wrong in (0, -1, 1.5):
        with pytest.raises(FovealError, match="size of an image"):
            open_image(path, wrong)


def test_kind_of(tmp_path):
    assert kind_of(saved(tmp_path / "a.png", two_by_three().convert("L"))) == ("PNG L", 2, 3)
    with pytest.raises(BadImage, match="no such file"):
        kind_of(tmp_path / "b.png")


@given(
    st.sampled_from(["PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP"]),
    st.integers(0, 10_000),
    st.integers(0, 255),
    st.integers(1, 40),
)
def test_a_damaged_file_is_an_image_or_bad_image_and_nothing_else(tmp_path_factory, kind, place, value, length):
    content = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (17, 19, 3), np.uint8)).save(content, format=kind)
    broken = bytearray(content.getvalue())
    place %= len(broken)
    broken[place : place + length] = bytes([value]) * len(broken[place : place + length])
    path = tmp_path_factory.mktemp("damaged") / "a"
    path.write_bytes(broken)
    with contextlib.suppress(BadImage):
        assert open_image(path, 13).shape == (13, 13, 3)
