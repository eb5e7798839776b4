"""`foveal show`: the list, one mechanism, its picture, the gallery."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from foveal.app.cli import main
from foveal.app.command.show import described, in_text, listing
from foveal.core.attend import attend, normalise
from foveal.errors import FovealError
from foveal.report.catalogue import Entry, Paper, entries, find, run_example
from foveal.report.mechanism_picture import PANELS, portrait
from foveal.report.picture import Picture


def drawn(name: str, size: int | None = None) -> Picture:
    picture = portrait(find(name), size)
    assert isinstance(picture, Picture), picture
    return picture


def test_the_list_names_everything_within_100_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    listed = [line for line in lines if line.startswith("  ") and line[2] != " "]  # long lists go on below
    names = [line.split()[0] for line in listed]
    families = [entry.name for entry in entries() if entry.presets]
    assert names == [*(entry.name for entry in entries()), *families]
    assert lines[0] == "masks"
    assert (
        f"  {'icam':{max(map(len, names))}}  icam-30k, icam-31k, icam-lite, icam-fast"
        in lines[lines.index("presets") :]
    )
    starts = {line.index(line.split()[1]) for line in listed}
    assert len(starts) == 1  # the equations stand under each other


def test_a_long_equation_is_cut() -> None:
    entry = Entry("long", "mask", "", "e = " + "x " * 90, "", (), "", "", "", "")
    line = listing((entry,), 60)[1]
    assert len(line) == 60
    assert line.endswith("…")


def test_one_mechanism_is_described_in_full() -> None:
    entry = find("causal")
    text = " ".join(" ".join(described(entry, 70)).split())
    for part in (
        entry.title,
        entry.equation,
        str(entry.papers[0]),
        entry.departs,
        entry.cost,
        entry.example,
        entry.module,
    ):
        assert " ".join(part.split()) in text
    assert max(len(line) for line in described(entry, 70)) <= 70
    two = Entry(
        "n", "layer", "t", "a\nb", "s", (Paper(("A B",), 2000, "T"), Paper(("C D",), 2001, "U")), "d", "c", "e", "m"
    )
    assert [line.split()[0] for line in described(two, 70) if line.strip()] == [
        "n", "t", "a", "b", "symbols", "paper", "paper", "departs", "cost", "example", "module",
    ]  # fmt: skip


def test_a_narrow_list_wraps_the_presets() -> None:
    entry = Entry("some", "model", "", "y = x", "", (), "", "", "", "", presets=("some-one", "some-two", "some-three"))
    assert listing((entry,), 30)[3:6] == ["presets", "  some  some-one, some-two,", "        some-three"]


def test_a_preset_is_described_by_its_config_and_its_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "icam-31k"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "icam-31k: a preset of icam, 31,371 parameters"
    assert "  patch: 56" in lines
    assert "  position: 'sinusoidal'" in lines


def test_a_mask_is_drawn_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "causal", "--size", "4"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("┌────┐\n│█▄  │\n│███▄│\n└────┘\n")


@pytest.mark.parametrize("entry", [entry for entry in entries() if entry.kind == "mask"], ids=lambda entry: entry.name)
def test_a_mask_looks_as_it_keeps(entry: Entry) -> None:
    mask = run_example(entry).output
    picture = drawn(entry.name)
    side = picture.largest[0]
    assert picture.largest == (side, side)
    kept = mask.dense(side, side, batch=len(picture.panels)).expand(len(picture.panels), 1, side, side)[:, 0]
    assert np.array_equal(np.stack(picture.panels), kept.double().numpy())
    assert picture.binary


def test_padding_gets_a_panel_a_sample_and_a_window_its_grid() -> None:
    assert [panel[0].sum() for panel in drawn("padding").panels] == [7, 4, 0]
    assert drawn("window").largest == (36, 36)
    with pytest.raises(FovealError, match="window's grid"):
        portrait(find("window"), 10)


def test_weights_are_those_of_the_example() -> None:
    ran = run_example(find("multihead"))
    x, layer = ran.inputs[0], ran.module
    q, k, _ = (part.unflatten(-1, (7, 2)).transpose(1, 2) for part in layer.qkv(x).chunk(3, -1))
    _, alpha = attend(q, k, k, weights=True)
    picture = drawn("multihead")
    want = alpha[0].detach().numpy()
    assert np.allclose(np.stack(picture.panels), want / want.max(), atol=1e-6)
    assert picture.high == f"{want.max():.2g}"
    assert picture.labels == tuple(f"head {head}" for head in range(7))


def test_a_score_is_drawn_as_weights() -> None:
    alpha = normalise(run_example(find("dot")).output)[0].numpy()
    assert np.allclose(np.stack(drawn("dot").panels), alpha / alpha.max(), atol=1e-6)


def test_a_function_that_attends_is_drawn_too() -> None:
    assert [panel.shape for panel in drawn("attend").panels] == [(11, 7)] * 6


def test_several_attentions_stand_beside_each_other() -> None:
    picture = drawn("two_way")
    assert [panel.shape for panel in picture.panels] == [(11, 7), (11, 7), (7, 11), (7, 11)]
    assert len(set(picture.labels)) == 4


def test_positions_are_drawn_as_what_they_add() -> None:
    added = drawn("sinusoidal", 9)
    assert added.largest == (9, 14)
    assert (added.rows, added.columns, added.signed) == ("positions", "channels", True)
    assert np.allclose(added.panels[0][:, 0], np.sin(np.arange(9)) / 2 + 0.5, atol=1e-6)
    assert [panel.shape for panel in drawn("polar", 6).panels] == [(6, 6)] * 14
    assert drawn("learned").largest == (11, 14)  # what is learned, in the size that is learned
    turned = drawn("rotary", 13).panels[0]
    assert np.allclose(np.diag(turned), 1)
    assert np.allclose(turned[0, :7], turned[6, 6:])  # the distance alone counts
    assert np.allclose(turned, turned.T, atol=1e-6)
    assert len(drawn("relative").panels) == 1  # for queries of ones all heads look alike
    assert len(drawn("bias_table").panels) == 6
    assert drawn("bias_table").largest == (6, 6)


@pytest.mark.parametrize("name", ["squeeze_excitation", "eca", "spatial", "cbam", "coordinate", "attention_gate"])
def test_a_gate_is_drawn_between_what_comes_in_and_what_comes_out(name: str) -> None:
    ran, picture = run_example(find(name)), drawn(name)
    assert (picture.rows, picture.columns, picture.low, picture.high) == ("y", "x", "0", "1")
    largest = ran.inputs[0][0, :2].abs().max()
    assert picture.labels[:3] == (f"|input 0| / {largest:.2g}", "gate 0", f"|output 0| / {largest:.2g}")
    panels = torch.from_numpy(np.stack(picture.panels)).unflatten(0, (2, 3))
    torch.testing.assert_close(panels[:, 0].float(), ran.inputs[0][0, :2].abs() / largest)
    torch.testing.assert_close(panels[:, 2].float(), ran.output[0, :2].detach().abs() / largest)
    torch.testing.assert_close(panels[:, 0] * panels[:, 1], panels[:, 2])


def test_gates_go_by_channel_by_place_or_by_both() -> None:
    def gates(name: str) -> np.ndarray:
        return np.stack(
            [panel for panel, label in zip(drawn(name).panels, drawn(name).labels, strict=True) if "gate" in label]
        )

    for name in ("squeeze_excitation", "eca"):
        assert np.ptp(gates(name), axis=(1, 2)).max() < 1e-6
        assert abs(gates(name)[0] - gates(name)[1]).max() > 1e-3
    for name in ("spatial", "attention_gate"):
        assert abs(gates(name)[0] - gates(name)[1]).max() < 1e-6
        assert np.ptp(gates(name), axis=(1, 2)).min() > 1e-3
    assert np.linalg.matrix_rank(gates("coordinate"), tol=1e-5).tolist() == [1, 1]


def test_branches_are_drawn_as_weights_of_each_channel() -> None:
    picture = drawn("selective_kernel")
    assert [panel.shape for panel in picture.panels] == [(1, 2)] * 6


def test_what_has_no_picture_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["show", "feed-forward"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("no picture: ")
    assert main(["show", "feed-forward", "--png", str(tmp_path / "a.png")]) == 2
    assert "feed_forward has no picture" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_png_is_written_as_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "local.png"
    assert main(["show", "local", "--png", str(path), "--size", "12"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"wrote {path}"
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert image.width > 12 * 40


def test_the_same_picture_every_time(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        torch.rand(3)
        assert main(["show", "multihead", "--png", str(tmp_path / name)]) == 0
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_gallery_draws_everything_that_has_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--gallery", str(tmp_path / "new" / "folder")]) == 0
    lines = capsys.readouterr().out.splitlines()
    without = {line.split()[0] for line in lines if "no picture" in line}
    want = {f"{entry.name}.png" for entry in entries() if entry.name not in without} | {"gallery.png"}
    assert {path.name for path in (tmp_path / "new" / "folder").iterdir()} == want
    assert {"causal.png", "attend.png", "multihead.png", "rotary.png"} <= want
    assert "feed_forward" in without


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["causl"], "the nearest is 'causal'"),
        (["icam-31"], "the nearest is 'icam-31k'"),
        (["icam-31k", "--size", "4"], "--size: expected nothing beside a preset, got 4"),
        (["--png", "a.png"], "--png: expected nothing beside a list, got a.png"),
        (["--size", "4"], "--size: expected nothing beside a list, got 4"),
        (["causal", "--gallery", "x"], "NAME: expected nothing beside --gallery, got causal"),
        (["causal", "--size", "0"], "--size: expected 1 … 2048, got 0"),
        (["causal", "--size", "four"], "argument --size: invalid int value: 'four'"),
        (["multihead", "--size", "9"], "--size: expected a mask or a position, got 'multihead'"),
    ],
)
def test_bad_arguments_get_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("foveal: error: ")
    assert says in err
    assert err.count("\n") == 1


def test_a_place_that_cannot_be_written_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    below = tmp_path / "file" / "below"
    below.parent.write_text("")
    for arguments, says in ((["causal", "--png"], "cannot write"), (["--gallery"], "cannot make the folder")):
        assert main(["show", *arguments, str(below)]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"foveal: error: {says} {below}: ")
        assert err.count("\n") == 1


def test_text_fits_the_terminal_and_its_encoding() -> None:
    picture = Picture(
        [np.eye(30) * 0.5] * 20, "wide", labels=tuple(f"head {head}, of.a.long.name.that.goes.on" for head in range(20))
    )
    for width in (24, 70, 100):
        lines = in_text(picture, width, "utf-8")
        assert max(map(len, lines[1:-1])) <= width
        assert "more; --png FILE draws them all" in lines[-1]
    "\n".join(in_text(picture, 70, "ascii")).encode("ascii")
    assert PANELS < 20


def test_the_list_needs_no_torch_and_no_numpy() -> None:
    code = (
        "import sys\nfrom foveal.app.cli import main\nassert main(['show']) == 0\n"
        "assert not {'torch', 'numpy', 'PIL'} & set(sys.modules), 'slow'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
