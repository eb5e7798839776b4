"""`foveal explain`, as it is typed, and the sheet that it draws."""

import csv
import io
import json

import numpy as np
import pytest
import torch
from cards import classify_card
from PIL import Image

from foveal.app import cli
from foveal.data.pipes import KINDS
from foveal.models.store import describe, save_model
from foveal.models.zoo import create
from foveal.report.overlay import HEAT, Panel, Sheet, draw, heat, overlay
from foveal.tasks.classify import faithful as faithful_module


@pytest.fixture(autouse=True)
def command(monkeypatch, tmp_path):
    monkeypatch.setitem(cli.COMMANDS, "explain", ("foveal.tasks.classify.explain", "see"))
    monkeypatch.chdir(tmp_path)


def saved(path, name="icam-31k", **changes):
    torch.manual_seed(0)
    net = create(name, classes=len(KINDS), image=64, **changes)
    family, config = describe(net)
    save_model(net.eval(), path, classify_card(name, family, config, KINDS, multi_label=True, size=64, threshold=(0.5,) * len(KINDS)))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("run") / "m.safetensors", patch=16)


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (53, 71, 3), np.uint8)).save(path)
    return path


def typed(capsys, *words):
    status = cli.main(["explain", *map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_sheet(model, photo, tmp_path, capsys):
    status, out, err = typed(capsys, model, photo, "--out", tmp_path / "sheet.png")
    assert (status, err) == (0, "")
    assert out.splitlines()[1] == f"wrote {tmp_path}/sheet.png"
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.format == "PNG"
        assert sheet.width > 1000
    assert typed(capsys, model, photo)[1].endswith("wrote photo-explained.png\n")
    assert (tmp_path / "photo-explained.png").read_bytes() == (tmp_path / "sheet.png").read_bytes()
    assert typed(capsys, photo)[0] == 0  # with the weights that come with foveal


def test_numbers(model, photo, tmp_path, capsys):
    status, out, _ = typed(capsys, model, photo, "--json")
    facts = json.loads(out)
    assert status == 0
    assert facts["cells"] == [4, 4]
    assert set(facts["probability"]) == set(KINDS)
    assert facts["found"] == [name for name, probability in facts["probability"].items() if probability >= 0.5]
    assert [(one["layer"], one["head"], one["query"]) for one in facts["attention"]] == [
        ("first query", 0, 0), ("layer 1", 0, 0), ("layer 1", 1, 0), ("layer 2", 0, 0), ("layer 2", 1, 0)
    ]  # fmt: skip
    maps = [np.array(one["map"]) for one in facts["attention"]]
    assert [one.sum() for one in maps] == pytest.approx([1] * 5, abs=1e-4)
    np.testing.assert_allclose(facts["average"], (maps[0] + (maps[1] + maps[2]) / 2 + (maps[3] + maps[4]) / 2) / 3, atol=2e-6)
    assert np.sum(facts["gradient"]) == pytest.approx(1, abs=1e-4)
    assert facts["answer"] in KINDS
    assert not list(tmp_path.glob("*.png"))  # nothing but numbers was asked for


def test_heat_gets_ever_lighter():
    red, green, blue = heat(np.linspace(0, 1, 101)).astype(float).T
    light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    assert (np.diff(light) > 0).all()
    assert tuple(heat(np.array(1.0))) == tuple(int(HEAT[-1][place : place + 2], 16) for place in (1, 3, 5))


def test_heat_lies_where_the_map_is():
    photo = np.full((30, 40, 3), 128, np.uint8)
    values = np.zeros((2, 3))
    values[1, 2] = 1
    drawn = np.asarray(overlay(photo, values, 60)).astype(int).sum(-1)
    assert drawn[31:, 41:].min() > drawn[:, :39].max()
    assert drawn[31:, 41:].min() > drawn[:29].max()


@pytest.mark.parametrize(("layers", "heads", "cells"), [(0, 0, 4), (1, 3, 4), (3, 8, 14)])
def test_sheets_of_all_sizes(layers, heads, cells):
    panel = Panel("a title that is longer than its panel is wide, by far", np.eye(cells) / cells, 1 / cells)
    empty = Panel("nothing", np.zeros((cells, cells)), 0.0)
    sheet = Sheet(
        "Straße ×" * 40,
        "caption",
        np.zeros((9, 5, 3), np.uint8),
        [(f"class {n}", n / 20, n > 12) for n in range(20)],
        [panel, empty],
        [[panel] * heads] * layers,
        "legend",
    )
    drawn = draw(sheet)
    assert max(drawn.size) < 3000


def test_a_model_that_shows_nothing(photo, tmp_path, capsys):
    peer = saved(tmp_path / "resnet.safetensors", "resnet-18")
    status, out, err = typed(capsys, peer, photo, "--out", "x.png")
    assert (status, out) == (2, "")
    assert "no attention map can be had of this model" in err
    assert not (tmp_path / "x.png").exists()
    status, out, err = typed(capsys, peer, "--faithful", 1)
    assert status == 0  # the other maps can be measured


def test_bad_words(model, photo, tmp_path, capsys):
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff")
    for words, says in (
        ([model], "one image, got none"),
        ([model, photo, photo], "one image, got 2"),
        ([model, tmp_path / "none.jpg"], "no such file"),
        ([model, tmp_path / "bad.jpg"], "bad.jpg: damaged"),
        ([model, photo, "--out", "x.gif"], "a .png file"),
        ([model, photo, "--seed", 3], "--faithful beside it"),
        ([model, photo, "--faithful", 3], "a model and no image"),
        ([model, "--faithful", 0], "at least 1"),
        ([model, "--faithful", 1, "--seed", -1], "--seed"),
        ([model, "--faithful", 1, "--out", photo], "cannot write"),
    ):
        status, out, err = typed(capsys, *words)
        assert (status, out) == (2, ""), words
        assert says in err
        assert err.count("\n") == 1
    png = tmp_path / "p.png"
    Image.open(photo).save(png)
    assert "another file than the image" in typed(capsys, model, png, "--out", png)[2]
    assert not list(tmp_path.glob("*explained*"))


def test_faithful(model, tmp_path, capsys):
    status, out, _ = typed(capsys, model, "--faithful", 3, "--seed", 7, "--out", "page")
    assert status == 0
    assert out.startswith("3 rendered frames with ")
    table = list(csv.DictReader(io.StringIO((tmp_path / "page" / "faithful.csv").read_text())))
    facts = json.loads((tmp_path / "page" / "faithful.json").read_text())
    page = (tmp_path / "page" / "faithful.md").read_text()
    assert facts["first frame"] == 2_008_000_000  # beyond every set that can be trained on
    assert facts["origin"]["torch"]
    assert f"| torch | {facts['origin']['torch']} |".replace("_", r"\_") in page
    assert len(table) == len(facts["figures"]) > 0
    for row, one in zip(table, facts["figures"], strict=True):
        assert (row["measure"], row["map"], row["findings"]) == (one["measure"], one["map"], str(one["count"]))
        assert row["% (95 %)"].startswith(f"{100 * one['mean']:.1f} (")
        assert row["measure"] in out
    assert json.loads(typed(capsys, model, "--faithful", 3, "--seed", 7, "--json")[1])["figures"] == facts["figures"]


def test_what_may_be_said():
    said = faithful_module._said
    assert said("points at the finding", [0.1, 0.3]) == said("deletion area", [-0.3, -0.1]) == "better than chance"
    assert said("points at the finding", [-0.3, -0.1]) == said("deletion area", [0.1, 0.3]) == "worse than chance"
    assert said("weight on the finding", [-0.1, 0.1]) == said("deletion area", [-0.1, 0.1]) == "not told from chance"
    assert said("deletion area", None) == "chance"


def test_nothing_named_is_said(tmp_path, capsys):
    torch.manual_seed(0)
    net = create("icam-30k", classes=len(KINDS), image=64, patch=16)
    family, config = describe(net)
    save_model(
        net.eval(),
        tmp_path / "m.safetensors",
        classify_card("icam-30k", family, config, KINDS, multi_label=True, size=64, threshold=(1.0,) * len(KINDS)),
    )
    status, out, _ = typed(capsys, tmp_path / "m.safetensors", "--faithful", 2, "--out", "page")
    assert status == 0
    assert "nothing to measure" in out
    assert "Nothing to measure" in (tmp_path / "page" / "faithful.md").read_text()
