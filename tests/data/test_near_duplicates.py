"""Near-duplicates across splits: found by bands as a comparison of all pairs finds them, and not mere relatives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from foveal.data.near_duplicates import SIDE, hash_of, hashes, likeness_of, near_duplicates, pairs
from foveal.data.read import read
from foveal.errors import FovealError


def scene(seed):
    """Something with structure at several sizes."""
    chance = np.random.default_rng(seed)
    parts = [
        Image.fromarray(chance.integers(0, 256, (side, side, 3), np.uint8)).resize((97, 89), 3) for side in (3, 7, 17)
    ]
    return np.mean([np.asarray(part, float) for part in parts], 0)


def small(pixels):
    return np.array(Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).resize((SIDE, SIDE), 2))


def test_the_hash_by_hand():
    ramp = np.tile(np.repeat(np.arange(9) * 20, 8)[None, :, None], (SIDE, 1, 3)).astype(np.uint8)
    assert hash_of(ramp) is None  # rising everywhere: any vignette does
    ramp[:9, 8:16] = 200  # in the first row of eight: up, then down
    assert hash_of(ramp) == 2**64 - 1 - 2**62
    assert hash_of(np.full((SIDE, SIDE, 3), 90, np.uint8)) is None
    with pytest.raises(FovealError, match="pixels"):
        hash_of(np.zeros((3, 5, 3), np.uint8))


@given(st.integers(0, 9), st.integers(2, 61), st.integers(0, 999))
def test_bands_find_what_all_pairs_find(distance, count, seed):
    chance = np.random.default_rng(seed)
    base = chance.integers(0, 2**64, 5, np.uint64, endpoint=False)
    codes = base[chance.integers(0, 5, count)]
    for _ in range(6):
        codes = codes ^ np.where(
            chance.random(count) < 0.6, np.uint64(1) << chance.integers(0, 64, count).astype(np.uint64), np.uint64(0)
        )
    part = chance.integers(0, 3, count)
    oracle = {}
    for i in range(count):
        for j in range(count):
            apart = (int(codes[i]) ^ int(codes[j])).bit_count()
            if part[i] < part[j] and apart <= distance:
                oracle[i, j] = apart
    first, second, bits = pairs(codes, part, distance)
    assert len(first) == len(oracle)
    assert dict(zip(zip(first.tolist(), second.tolist(), strict=True), bits.tolist(), strict=True)) == oracle
    assert (np.diff(bits) >= 0).all()


def test_distance_is_checked():
    for wrong in (-1, 16, 1.5):
        with pytest.raises(FovealError, match="0 to 15 bits"):
            pairs(np.zeros(3, np.uint64), np.zeros(3), wrong)


def test_likeness():
    one, other = scene(0), scene(1)
    assert likeness_of(small(one), small(one)) == pytest.approx(1)
    assert likeness_of(small(one), small(one * 0.6 + 20)) > 0.95  # darker and flatter, the same all the same
    assert likeness_of(small(one), small(other)) < 0.5
    assert likeness_of(small(one), small(255 - one)) < -0.9
    flat = np.full((SIDE, SIDE, 3), 90, np.uint8)
    assert likeness_of(flat, flat) == likeness_of(flat, small(one)) == 0
    bars = np.tile((np.arange(SIDE) // 9 % 2 * 200)[None, :, None], (SIDE, 1, 3)).astype(np.uint8)
    assert likeness_of(bars, bars) == pytest.approx(1)
    assert likeness_of(speckled(bars, 0, 9), speckled(bars, 1, 9)) < 0.3  # the same bars, and all else different


def speckled(pixels, seed, strength):
    spots = np.random.default_rng(seed).normal(0, strength, (24, 24, 1)).repeat(3, 0).repeat(3, 1)
    return (pixels * 0.7 + 30 + spots).clip(0, 255).astype(np.uint8)


def test_relatives_are_no_twins(tmp_path):
    coarse = np.random.default_rng(7).integers(0, 2, (8, 9, 1)).repeat(9, 0).repeat(8, 1) * np.array([90, 90, 90])
    lines = ["file,label,split"]
    for number, split in enumerate(("train", "test", "val")):
        Image.fromarray(speckled(coarse + np.arange(SIDE)[None, :, None], number, 12)).save(tmp_path / f"{split}.png")
        lines.append(f"{split}.png,{number % 2},{split}")
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    source = read(str(tmp_path))
    codes, there = hashes(source)
    assert len(pairs(codes, source.split, 15)[0]) == 3
    assert not near_duplicates(source, codes, there, 15)
    assert len(near_duplicates(source, codes, there, 15, likeness=-1)) == 3


def test_twins_of_a_set(tmp_path):
    lines = ["file,label,split"]

    def add(name, pixels, split, **how):
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(tmp_path / name, **how)
        lines.append(f"{name},{len(lines) % 2},{split}")

    for number in range(7):
        add(f"train{number}.png", scene(number), "train")
        add(f"test{number}.png", scene(100 + number), "test")
    add("val.png", scene(200), "val")
    add("same.png", scene(4), "test")
    add("darker.jpg", scene(5)[:-1, 1:] * 0.8, "val", quality=70)
    add("again.png", scene(6), "train")  # within one split it leaks nothing
    for split in ("train", "test"):
        add(f"black-{split}.png", np.zeros((50, 50, 3)), split)
    lines.append("missing.png,0,test")
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    source = read(str(tmp_path))
    codes, there = hashes(source)
    assert there.sum() == 18
    found = near_duplicates(source, codes, there)
    assert [(twin.first, twin.second, twin.splits) for twin in found] == [
        ("train4.png", "same.png", ("train", "test")),
        ("train5.png", "darker.jpg", ("train", "val")),
    ]
    assert found[0].distance == 0
    assert found[0].likeness == 1


def test_twins_across_folds(tmp_path):
    """Train and train again, but another fold: the run that tests the one has trained on the other."""
    lines = ["file,label,split,fold,campaign"]
    for number, (seed, split, fold) in enumerate(
        [(0, "train", 0), (0, "train", 2), (1, "train", 1), (1, "test", 1), (2, "val", 0)]
    ):
        Image.fromarray(scene(seed).clip(0, 255).astype(np.uint8)).save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png,{number % 2},{split},{fold},{2020 + fold}")
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    source = read(str(tmp_path))
    codes, there = hashes(source)
    assert [(twin.first, twin.second, twin.splits) for twin in near_duplicates(source, codes, there)] == [
        ("2.png", "3.png", ("train", "test"))
    ]
    found = near_duplicates(source, codes, there, across="folds")
    assert [(twin.first, twin.second, twin.splits) for twin in found] == [("0.png", "1.png", ("fold 0", "fold 2"))]
    named = near_duplicates(read(str(tmp_path), fold_column="campaign"), codes, there, across="folds")
    assert [twin.splits for twin in named] == [("2020", "2022")]
    with pytest.raises(FovealError, match="across: expected splits or folds, got classes"):
        near_duplicates(source, codes, there, across="classes")
