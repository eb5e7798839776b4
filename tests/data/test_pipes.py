"""The renderer of pipes: the same frame for the same seed, findings that are where they are said to be,
and nothing else changed by them.
"""

import hashlib
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from foveal.data.pipes import KINDS, Finding, Frame, contact_sheet, render
from foveal.data.pipes.camera import Camera, wall
from foveal.data.pipes.finding import FINDINGS
from foveal.data.pipes.layer import Canvas, Layer
from foveal.data.pipes.noise import EDGE, field, sample
from foveal.data.pipes.overlay import Text, draw_text
from foveal.data.pipes.plan import APART
from foveal.data.pipes.scene import draw_camera, stream
from foveal.errors import FovealError

NAMES = [
    "crack-longitudinal",
    "crack-circular",
    "fracture",
    "hole",
    "joint-displaced",
    "root",
    "deposit",
    "lateral",
    "lateral-protruding",
    "infiltration",
    "obstacle",
    "sag",
    "lining",
    "surface",
    "joint-open",
]


def digest(frame: Frame) -> str:
    """All that a frame says, in one word."""
    word = hashlib.sha256(frame.image.tobytes())
    for finding in frame.findings:
        word.update(f"{finding.kind} {finding.box} {finding.clock!r}".encode() + finding.mask.tobytes())
    return word.hexdigest()


def test_the_names_are_these():
    assert list(KINDS) == NAMES


def test_the_same_seed_gives_the_same_frame_and_another_seed_another():
    words = [digest(render(seed, 61)) for seed in (3, 3, 4)]
    assert words[0] == words[1] != words[2]


def test_another_process_that_rendered_other_frames_before_gives_the_same_bytes():
    lines = (
        "import hashlib; from foveal.data.pipes import render; "
        "render(99, 37); render(7, 224, ('root',)); f = render(11, 89)"
    )
    done = subprocess.run(
        [sys.executable, "-c", lines + "; print(hashlib.sha256(f.image.tobytes()).hexdigest())"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == hashlib.sha256(render(11, 89).image.tobytes()).hexdigest()


def test_the_global_generator_is_neither_read_nor_moved():
    np.random.seed(0)
    state = np.random.get_state()[1].copy()
    before = render(5, 37).image
    assert np.array_equal(np.random.get_state()[1], state)
    np.random.seed(1)
    assert np.array_equal(render(5, 37).image, before)


@pytest.mark.parametrize("size", [32, 61, 224, 397])
@pytest.mark.parametrize("kind", NAMES)
def test_every_kind_renders_at_every_size(kind: str, size: int):
    frame = render(17, size, (kind,))
    assert frame.image.shape == (size, size, 3)
    assert frame.image.dtype == np.uint8
    assert frame.image.std() > 5  # an image, not a plain sheet
    assert [finding.kind for finding in frame.findings] == [kind]
    holds_together(frame.findings[0], size)


def test_the_largest_size():
    holds_together(render(1, 1024, ("hole",)).findings[0], 1024)


@pytest.mark.parametrize("kind", NAMES)
def test_over_twenty_seeds_a_finding_is_seen_and_its_box_fits(kind: str):
    for seed in range(20):
        holds_together(render(seed, 89, (kind,)).findings[0], 89)


def holds_together(finding: Finding, size: int) -> None:
    """Mask, box and clock agree with each other; plain loops as the oracle of the box."""
    assert finding.mask.shape == (size, size)
    assert finding.mask.dtype == bool
    rows = [y for y in range(size) if finding.mask[y].any()]
    columns = [x for x in range(size) if finding.mask[:, x].any()]
    assert rows, finding.kind
    assert finding.box == (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
    assert all(np.isfinite(finding.box))
    assert 0 <= finding.clock < 12


@pytest.mark.parametrize("kind", NAMES)
def test_a_finding_changes_its_own_pixels_and_hardly_any_other(kind: str):
    inside, outside = [], []
    for seed in range(40, 52):
        without, frame = render(seed, 131, ()).image, render(seed, 131, (kind,))
        change = np.abs(frame.image.astype(float) - without).mean(-1)
        mask = frame.findings[0].mask
        inside.append(change[mask].mean())
        outside.append(change[~mask].mean())
        assert change[mask].mean() > 2 * change[~mask].mean(), seed
    assert min(inside) > 8
    assert np.mean(inside) > 10 * np.mean(outside)


def test_a_normal_frame_has_no_finding():
    assert render(2, 61, ()).findings == ()


def test_drawn_frames_have_none_to_three_kinds_that_go_together():
    frames = [render(seed, 32) for seed in range(400)]
    counts = np.bincount([len(frame.findings) for frame in frames], minlength=4) / len(frames)
    assert np.allclose(counts, (0.35, 0.36, 0.20, 0.09), atol=0.08)
    seen = {finding.kind for frame in frames for finding in frame.findings}
    assert seen == set(NAMES)
    for frame in frames:
        kinds = {finding.kind for finding in frame.findings}
        assert len(kinds) == len(frame.findings)
        assert not any(pair <= kinds for pair in APART)


def test_masks_of_one_frame_do_not_overlap():
    for seed in range(12):
        frame = render(seed, 97, ("hole", "lateral-protruding", "obstacle"))
        assert [finding.kind for finding in frame.findings] == ["hole", "lateral-protruding", "obstacle"]
        assert max(sum(finding.mask.astype(int) for finding in frame.findings).ravel()) == 1


def test_kinds_in_another_order_are_the_same_image():
    one, other = render(8, 61, ("root", "hole")), render(8, 61, ("hole", "root"))
    assert np.array_equal(one.image, other.image)
    assert [finding.kind for finding in one.findings] == ["root", "hole"]


@pytest.mark.parametrize("kind", ["crack-longitudinal", "hole", "lateral", "deposit", "obstacle"])
def test_the_clock_is_where_the_mask_is_seen_with_the_roll_taken_out(kind: str):
    errors = []
    for seed in range(30):
        finding = render(seed, 113, (kind,)).findings[0]
        camera = draw_camera(stream(seed, "camera"))
        # by hand: the mask's middle as seen from the point where the pipe vanishes, unsqueezed and rolled back
        far_x, far_y = camera.project(np.array([[0.0], [0.0], [60.0]]), 113)
        rows, columns = np.nonzero(finding.mask)
        x, y = (columns.mean() - far_x[0]) * camera.aspect, rows.mean() - far_y[0]
        x, y = x * np.cos(camera.roll) - y * np.sin(camera.roll), x * np.sin(camera.roll) + y * np.cos(camera.roll)
        seen = np.arctan2(x, -y) * 6 / np.pi
        errors.append(abs((seen - finding.clock + 6) % 12 - 6))
    assert np.median(errors) < 0.4
    assert np.quantile(errors, 0.9) < 1.2


def test_a_sag_hides_the_wall_below_its_level_and_nothing_above_the_camera():
    for seed in range(12):
        size, finding = 113, render(seed, 113, ("sag",)).findings[0]
        view = draw_camera(stream(seed, "camera")).look(size)
        assert view.height[finding.mask].min() > view.camera.offset[1] - 0.05
        assert 4.5 < finding.clock < 7.5
        assert finding.mask.mean() > 0.02


def test_what_stands_below_the_water_of_a_sag_is_not_in_a_mask():
    for seed in range(8):
        frame = render(seed, 97, ("hole", "sag"))
        hole, sag = frame.findings
        assert not (hole.mask & sag.mask).any()
        # the water comes first, whatever else there is
        assert sag.mask.sum() == render(seed, 97, ("sag",)).findings[0].mask.sum()


def test_a_joint_that_is_displaced_shifts_the_pipe_beyond_and_an_open_one_does_not():
    for seed in range(6):
        frames = {kind: render(seed, 131, (kind,)) for kind in ("joint-displaced", "joint-open")}
        depth = draw_camera(stream(seed, "camera")).look(131).depth
        change = {}
        for kind, frame in frames.items():
            beyond = (depth > 2 * np.median(depth[frame.findings[0].mask])) & (depth < 12) & ~frame.findings[0].mask
            change[kind] = np.abs(frame.image.astype(float) - render(seed, 131, ()).image).mean(-1)[beyond].mean()
        assert change["joint-displaced"] > 1.5 * change["joint-open"], seed


def test_a_layer_takes_the_wall_from_where_it_was_moved():
    canvas = Canvas(
        *(
            np.arange(n * 15, dtype=np.float32).reshape(-1, 3, 5) if n > 1 else np.arange(15.0).reshape(3, 5)
            for n in (3, 1, 1)
        )
    )
    before = canvas.albedo.copy()
    rows, columns = np.array([[2, 0]]), np.array([[4, 0]])
    Layer((slice(1, 2), slice(2, 4)), np.zeros((1, 2)), np.zeros((3, 1, 1)), moved=(rows, columns)).lay(canvas)
    assert canvas.albedo[:, 1, 2:4].tolist() == [[before[k, 2, 4], before[k, 0, 0]] for k in range(3)]
    assert canvas.light[1].tolist() == [5, 6, 14, 0, 9]


def test_most_recorders_write_into_several_corners():
    texts = [draw_text(stream(seed, "text")) for seed in range(200)]
    corners = np.bincount([len(text.lines) for text in texts], minlength=5)
    assert corners[0] < 50
    assert corners[3:].sum() > 80
    assert {len(lines) for text in texts for lines in text.lines.values()} == {1, 2, 3, 4}
    words = [line for text in texts for lines in text.lines.values() for line in lines]
    for part in ("#", ":", "m", "Lat : ", " / "):
        assert any(part in line for line in words)


@pytest.mark.parametrize("narrow", [1.0, 1.4])
def test_text_covers_what_it_changes(narrow: float):
    grey = Image.new("RGB", (113, 113), (128, 128, 128))
    image, covered = Text(
        {(0, 0): ["007.3m", "# 31"], (1, 1): ["Lat : 5"]}, (255, 255, 255), 0.09, False, False, narrow
    ).write(grey)
    changed = (np.asarray(image) > 215).all(-1)
    assert covered.sum() > 40
    assert (changed <= covered).all()
    assert not covered[:50, 60:].any()  # nothing in the corner that has no text
    assert covered[:50].any()
    assert covered[60:, 60:].any()


def test_stones_lie_side_by_side_and_repeat():
    stone, tint = (field(name).reshape(EDGE, EDGE) for name in ("stone", "tint"))
    assert abs(stone.mean()) < 0.05
    assert 500 < len(np.unique(tint)) <= (EDGE // 16) ** 2  # one tone for each
    assert (tint[0] == tint[-1]).mean() > 0.8


def test_a_straight_camera_by_hand():
    view = Camera().look(101)  # odd: one pixel looks down the axis
    middle = 50
    assert view.depth[middle, middle] == 60  # nothing to meet: the far end
    # the pixel at the right edge looks along (0.990, 0, 1) and meets the wall x = 1 at depth 1/0.990
    assert view.angle[middle, 100] == pytest.approx(np.pi / 2, abs=1e-5)  # three o'clock
    assert view.depth[middle, 100] == pytest.approx(1 / (2 * 100.5 / 101 - 1), rel=1e-5)
    assert view.angle[0, middle] == pytest.approx(0, abs=1e-5)  # twelve
    assert abs(view.angle[100, middle]) == pytest.approx(np.pi, abs=1e-5)  # six
    assert view.height[100, middle] == pytest.approx(1, abs=1e-5)


def test_a_rolled_camera_sees_the_crown_turned_the_other_way():
    view = Camera(roll=np.pi / 2).look(101)
    assert view.angle[50, 0] == pytest.approx(0, abs=1e-5)  # the crown is at the left edge


@given(
    st.floats(-0.3, 0.3),
    st.floats(-0.2, 0.2),
    st.floats(-0.3, 0.3),
    st.floats(0.9, 1.8),
    st.floats(0, 0.1),
    st.floats(-3.1, 3.1),
    st.floats(1, 5),
)
def test_project_undoes_look(
    offset: float, yaw: float, roll: float, aspect: float, bulge: float, angle: float, depth: float
):
    camera = Camera((offset, -offset / 2), yaw, yaw / 2, roll, 1.1, aspect, bulge)
    x, y = camera.project(wall(angle, depth), 1024)
    column, row = int(np.rint(x[0])), int(np.rint(y[0]))
    if 0 <= column < 1024 and 0 <= row < 1024:
        view = camera.look(1024)
        assert abs((view.angle[row, column] - angle + np.pi) % (2 * np.pi) - np.pi) < 0.02
        assert view.depth[row, column] == pytest.approx(depth, rel=0.02)


def test_noise_repeats_without_a_seam():
    made = field("cloud").reshape(EDGE, EDGE)
    inner = np.abs(np.diff(made, axis=0)).mean()
    assert np.abs(made[0] - made[-1]).mean() < 2 * inner  # two rows that are no neighbours differ by about 1
    assert np.abs(made[0] - made[EDGE // 2]).mean() > 0.3
    at = np.array([3.25, 3.25 + EDGE], np.float32)
    there = sample("cloud", at, at + np.float32(2.25), smooth=True)
    assert there[0] == pytest.approx(there[1], abs=1e-3)
    corner = made[3:5, 5:7]
    by_hand = 0.75 * (0.5 * corner[0, 0] + 0.5 * corner[0, 1]) + 0.25 * (0.5 * corner[1, 0] + 0.5 * corner[1, 1])
    assert there[0] == pytest.approx(by_hand, abs=1e-5)


def test_speed_of_one_core():
    render(0)  # the noise fields are made once
    start = time.process_time()
    for seed in range(30):
        render(seed)
    assert 30 / (time.process_time() - start) > 20


def test_a_contact_sheet_has_room_for_all():
    sheet = contact_sheet([render(seed, 37) for seed in range(5)], 3)
    assert sheet.size == (3 * 41 + 4, 2 * 57 + 4)
    with pytest.raises(FovealError, match="columns"):
        contact_sheet([render(0, 37)], 0)
    with pytest.raises(FovealError, match="frames"):
        contact_sheet([], 3)


@pytest.mark.parametrize("size", [31, 1025, 0, -224, 224.0, "224", True, None])
def test_a_bad_size_is_named(size: object):
    with pytest.raises(FovealError, match="size of a pipe's image: expected an integer of pixels from 32 to 1024"):
        render(0, size)


@pytest.mark.parametrize("seed", [-1, 0.5, "0", None, True])
def test_a_bad_seed_is_named(seed: object):
    with pytest.raises(FovealError, match="seed of a pipe"):
        render(seed)


def test_a_large_seed_and_numpy_numbers_are_fine():
    assert np.array_equal(render(np.int64(7), np.int32(37)).image, render(7, 37).image)
    assert render(2**40, 37).image.shape == (37, 37, 3)


def test_bad_kinds_are_named_with_the_nearest():
    with pytest.raises(FovealError, match=r"no kind of finding is called 'roots'; the nearest is 'root'"):
        render(0, 37, ("roots",))
    with pytest.raises(FovealError, match="no kind of finding"):
        render(0, 37, (3,))
    for kinds in ("root", 5, {"root": 1}):
        with pytest.raises(FovealError, match="expected a sequence of names"):
            render(0, 37, kinds)
    with pytest.raises(FovealError, match="each name once"):
        render(0, 37, ("root", "root"))


def test_each_kind_says_its_name_once():
    assert all(name == kind.name for name, kind in FINDINGS.items())
