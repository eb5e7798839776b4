"""`foveal explain`, as it is typed, and the sheet that it draws."""

import csv
import json

import numpy as np
import pytest
import torch
from cards import classify_card
from PIL import Image

from foveal.app import cli
from foveal.data.pipes import KINDS
from foveal.errors import FovealError
from foveal.models.store import describe, save_model
from foveal.models.zoo import create
from foveal.report.overlay import HEAT, Panel, Sheet, draw, heat, overlay
from foveal.runtime.image import open_image
from foveal.tasks.classify import faithful as faithful_module
from foveal.tasks.load import load


@pytest.fixture(autouse=True)
def command(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def saved(path, name="icam-31k", **changes):
    torch.manual_seed(0)
    net = create(name, classes=len(KINDS), image=64, **changes)
    family, config = describe(net)
    save_model(
        net.eval(), path, classify_card(name, family, config, KINDS, True, size=64, threshold=(0.5,) * len(KINDS))
    )
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


@pytest.mark.slow
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


@pytest.mark.parametrize("name", ["x.svg", "x.jpg", "x"])
def test_a_sheet_is_a_png_and_called_so(model, photo, tmp_path, name):
    explanation = load(model, device="cpu").explain(photo)
    with pytest.raises(FovealError, match=r"to save: expected the name of a \.png file, got x"):
        explanation.save(name)
    assert not (tmp_path / name).exists()


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
    np.testing.assert_allclose(
        facts["average"], (maps[0] + (maps[1] + maps[2]) / 2 + (maps[3] + maps[4]) / 2) / 3, atol=2e-6
    )
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


def test_a_network_without_attention_has_the_other_maps(photo, tmp_path, capsys):
    pytest.importorskip("transformers")
    peer = saved(tmp_path / "resnet.safetensors", "resnet-18")
    status, out, err = typed(capsys, peer, photo, "--out", "x.png", "--arrays", "x.npz")
    assert (status, err) == (0, "")
    assert "no attention map can be had of this model" in out
    assert (tmp_path / "x.png").exists()
    arrays = np.load(tmp_path / "x.npz")
    assert {name: arrays[name].shape for name in arrays} == {
        "probability": (len(KINDS),), "occlusion": (len(KINDS), 7, 7), "gradient": (7, 7),
    }  # fmt: skip
    assert typed(capsys, peer, "--faithful", 1)[0] == 0


def test_arrays_hold_every_map(model, photo, tmp_path, capsys):
    assert typed(capsys, model, photo, "--arrays", "m.npz")[0] == 0
    arrays = np.load(tmp_path / "m.npz")
    assert arrays["attention layer 2"].shape == (2, 1, 4, 4)
    assert arrays["occlusion"].shape == (len(KINDS), 4, 4)
    layers = [arrays[name].mean((0, 1)) for name in ("attention first query", "attention layer 1", "attention layer 2")]
    np.testing.assert_allclose(arrays["average"], np.mean(layers, 0))


def test_an_image_of_pillow_or_an_array(model, photo):
    opened = load(model, device="cpu")
    by_path = opened.explain(str(photo))
    pixels = open_image(photo)
    for subject in (pixels, Image.fromarray(pixels)):
        facts = opened.explain(subject).facts
        assert facts["found"] == by_path.facts["found"]
        assert facts["file"] == "image 0"


def test_bad_words(model, photo, tmp_path, capsys):
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff")
    for words, says in (
        ([model], "an image, got none"),
        ([model, photo, photo], "one input, got 2"),
        ([model, tmp_path / "none.jpg"], "no such file"),
        ([model, tmp_path / "bad.jpg"], "bad.jpg: damaged"),
        ([model, photo, "--out", "x.gif"], "a .png file"),
        ([model, photo, "--data", "pipes:3"], "--faithful beside it"),
        ([model, photo, "--faithful", 3], "a model and no image"),
        ([model, "--faithful", 0], "at least 1"),
        ([model, "--faithful", 1, "--seed", -1], "--seed"),
        ([model, "--faithful", 1, "--out", photo], "cannot write"),
        ([model, "--faithful", 1, "--fill", "noise"], "--fill: expected one of mean, blur"),
    ):
        status, out, err = typed(capsys, *words)
        assert (status, out) == (2, ""), words
        assert says in err
        assert err.count("\n") == 1
    png = tmp_path / "p.png"
    Image.open(photo).save(png)
    before = png.read_bytes()
    assert typed(capsys, model, png, "--out", png)[0] == 2
    assert png.read_bytes() == before
    assert not list(tmp_path.glob("*explained*"))


def test_faithful(model, tmp_path, capsys):
    status, out, _ = typed(capsys, model, "--faithful", 3, "--seed", 7, "--out", "page")
    assert status == 0
    assert out.startswith("3 images with ")
    facts = json.loads((tmp_path / "page" / "faithful.json").read_text())
    text = (tmp_path / "page" / "faithful.csv").read_text()
    rows = csv.DictReader(line for line in text.splitlines() if line and not line.startswith("#"))
    table = [row for row in rows if not row["table"]]  # the others are curves
    page = (tmp_path / "page" / "faithful.md").read_text()
    assert facts["data"] == "rendered pipes from seed 2008000000 on"  # beyond every set that can be trained on
    assert facts["origin"]["torch"]
    assert f"| torch | {facts['origin']['torch']} |".replace("_", r"\_") in page
    assert len(table) == len(facts["figures"]) > 0
    for row, one in zip(table, facts["figures"], strict=True):
        assert (row["measure"], row["map"], row["findings"]) == (one["measure"], one["map"], str(one["count"]))
        assert row["% (95 %)"].startswith(f"{100 * one['mean']:.1f}")
        assert row["measure"] in out
    assert json.loads(typed(capsys, model, "--faithful", 3, "--seed", 7, "--json")[1])["figures"] == facts["figures"]


def test_faithful_on_images_of_ones_own(model, tmp_path, capsys):
    """By deletion only: where findings are is known of rendered pipes alone."""
    status, _, _ = typed(capsys, model, "--faithful", 4, "--data", "pipes:30:3", "--out", "page")
    assert status == 0
    facts = json.loads((tmp_path / "page" / "faithful.json").read_text())
    assert {one["measure"] for one in facts["figures"]} == {"deletion area"}
    assert facts["images"] == 4
    assert facts["data"].startswith("pipes:30:3: ")
    other = tmp_path / "set"
    for name in ("dark", "light"):
        (other / name).mkdir(parents=True)
        Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(other / name / "0.png")
    assert "expected classes of the model" in typed(capsys, model, "--faithful", 1, "--data", other)[2]


def test_one_image_concludes_nothing(model, capsys):
    """An interval over images needs two of them."""
    facts = json.loads(typed(capsys, model, "--faithful", 1, "--json")[1])
    assert facts["figures"]
    assert all(one["interval"] is None and one["interval against random"] is None for one in facts["figures"])
    assert facts["interval"] == "none: too few images"
    out = typed(capsys, model, "--faithful", 1)[1]
    assert "too few images" in out
    assert "better than random" not in out


def test_conclusions():
    conclusion = faithful_module._conclusion
    assert conclusion("points at the finding", "gradient", [0.1, 0.3]) == "better than random"
    assert conclusion("deletion area", "gradient", [-0.3, -0.1]) == "better than random"
    assert conclusion("points at the finding", "gradient", [-0.3, -0.1]) == "worse than random"
    assert conclusion("deletion area", "gradient", [0.1, 0.3]) == "worse than random"
    assert conclusion("weight on the finding", "gradient", [-0.1, 0.1]) == "not distinguishable from random"
    assert conclusion("deletion area", "gradient", None) == "too few images"
    assert conclusion("deletion area", "random", None) == "random"


def test_nothing_found(tmp_path, capsys):
    torch.manual_seed(0)
    net = create("icam-30k", classes=len(KINDS), image=64, patch=16)
    family, config = describe(net)
    save_model(
        net.eval(),
        tmp_path / "m.safetensors",
        classify_card("icam-30k", family, config, KINDS, True, size=64, threshold=(1.0,) * len(KINDS)),
    )
    status, out, _ = typed(capsys, tmp_path / "m.safetensors", "--faithful", 2, "--out", "page")
    assert status == 0
    assert "nothing to measure" in out
    assert (tmp_path / "page" / "faithful.md").exists()
