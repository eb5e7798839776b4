"""`foveal ablate`: which variants there are, and a table of them."""

import re

import numpy as np
import pytest
from cards import classify_card
from PIL import Image
from training.little import a_set, sweeps_here

from foveal.app.cli import main
from foveal.deploy.measure.cost import parameters
from foveal.errors import FovealError
from foveal.models import imagenet
from foveal.models.zoo import create, presets
from foveal.tasks import ablation_time
from foveal.tasks.classify.ablate import ABLATIONS, BASE, OWN, PARTS, patches
from foveal.tasks.classify.graph import export_onnx
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.load import load
from foveal.training.sweep import PlannedRun
from foveal.vision.same_shape import SAME_SHAPE

ICAM, MAPS, PEERS = ABLATIONS["icam"], ABLATIONS["maps"], ABLATIONS["peers"]
LITTLE = ["--size", 32, "--config", "{image: 32, patch: 16}", "--batch", 5, "--epochs", 1, "--device", "cpu"]


@pytest.mark.parametrize("size", [224, 112, 64])
@pytest.mark.parametrize("table", ICAM.tables)
def test_every_variant_can_be_built_and_differs_from_the_others(table, size):
    recipe = ClassifyRecipe(size=size, config={} if size == 224 else {"image": size, "patch": size // 4})
    found = ICAM.variants(recipe, [table])
    assert list(found) == [table]
    built = {name: create(one.model, **one.config) for name, one in found[table].items()}
    assert len(built) > 1
    assert len({model.config for model in built.values()}) == len(built)


def test_patches_follow_the_size_of_the_images():
    assert list(ICAM.variants(ClassifyRecipe(), ["patch"])["patch"]) == [
        "patches of 56",
        "patches of 28",
        "patches of 112",
    ]
    small = ClassifyRecipe(size=64, config={"image": 64, "patch": 16})
    assert list(ICAM.variants(small, ["patch"])["patch"]) == ["patches of 16", "patches of 8", "patches of 32"]
    own = ClassifyRecipe(size=48, config={"image": 48, "patch": 16})
    assert list(ICAM.variants(own, ["patch"])["patch"]) == ["patches of 16", "patches of 12", "patches of 24"]
    odd = ClassifyRecipe(size=63, config={"image": 63, "patch": 21})
    with pytest.raises(FovealError, match="--size: expected a multiple of 4"):
        ICAM.variants(odd, ["patch"])


def test_a_variant_that_cannot_be_built_is_named_before_anything_is_trained():
    with pytest.raises(FovealError, match=r"the variant 4 heads of heads: .*heads"):
        ICAM.variants(ClassifyRecipe(config={"width": 18}), ["heads"])


def test_a_first_model_with_more_cells_than_its_map_is_named_before_a_peer_is_trained():
    recipe = ClassifyRecipe(size=64, config={"image": 64, "patch": 16, "pool": 9})
    with pytest.raises(FovealError, match=r"the variant icam-31k of peers: --config, pool: expected at most 4 .*got 9"):
        PEERS.variants(recipe, ["xie-2019"])


def test_static_queries_are_adaptive_ones_without_their_projections():
    counts = {name: parameters(create("icam-31k", **fields)) for name, fields in PARTS["first"].items()}
    assert counts == {"adaptive": 31_371, "static": 31_371 - 2 * 600}


def test_every_module_that_can_stand_on_the_map_is_a_variant():
    recipe = ClassifyRecipe(config={"layers": 1})
    found = MAPS.variants(recipe, None)["maps"]
    assert list(found) == ["none", *SAME_SHAPE] == ["none", *MAPS.tables]
    assert found["none"].config == {"layers": 1, "attention": ""}
    assert found["CBAM"] == recipe.changed(config={"layers": 1, "attention": "CBAM"})
    assert list(MAPS.variants(recipe, ["CBAM"])["maps"]) == ["none", "CBAM"]
    with pytest.raises(FovealError, match=r"the variant none of maps: no field of vit-micro's config is called"):
        MAPS.variants(ClassifyRecipe(model="vit-micro"), None)


def test_peers_are_what_foveal_builds_and_all_that_are_registered():
    tables = PEERS.tables
    assert tables[:3] == (BASE, "icam-lite", "icam-lite:imagenet")
    assert {*tables} == {BASE, *OWN, "icam-lite:imagenet", "efficientnet-lite0:imagenet", *presets("peer")}
    assert ABLATIONS["pruned"].tables == (BASE, *presets("peer"))


def test_the_first_peer_is_the_one_to_compare_with():
    pytest.importorskip("transformers")
    assert list(PEERS.variants(ClassifyRecipe(), ["resnet-18"])["peers"]) == [BASE, "resnet-18"]
    config = {"first": "static", "image": 128, "patch": 32}
    built = PEERS.variants(ClassifyRecipe(config=config, size=128), ["resnet-18", "vit-24", *OWN])["peers"]
    assert {name: recipe.config for name, recipe in built.items()} == {
        **{name: {"image": 128} for name in (*OWN, "vit-24", "resnet-18")},
        BASE: config,
        "icam-lite": {"image": 128, "patch": 128, "pool": 16},
        "pvt-micro": {},
    }
    assert all(recipe.model == name and recipe.init_from is None for name, recipe in built.items())


def test_a_line_that_begins_with_imagenet():
    found = PEERS.variants(ClassifyRecipe(), ["icam-lite", "icam-lite:imagenet"])["peers"]
    assert {name: one.init_from for name, one in found.items()} == {
        BASE: None,
        "icam-lite": None,
        "icam-lite, ImageNet": "imagenet",
    }
    assert found["icam-lite, ImageNet"].changed(init_from=None) == found["icam-lite"]
    with pytest.raises(FovealError, match="--init-from: expected none, for models from scratch, got icam-pipes"):
        PEERS.variants(ClassifyRecipe(init_from="icam-pipes"), None)
    with pytest.raises(FovealError, match="--model: expected icam-31k, which the others are compared with, got icam-f"):
        PEERS.variants(ClassifyRecipe(model="icam-fast"), None)


def test_patches_have_no_more_cells_than_phi_gives():
    found = patches(ClassifyRecipe(model="icam-lite"))
    assert {name: fields.get("pool") for name, fields in found.items()} == {
        "patches of 224": None,
        "patches of 56": 7,
        "patches of 28": 4,
        "patches of 112": 14,
    }
    assert all("pool" not in fields for fields in patches(ClassifyRecipe()).values())


def test_weights_that_are_not_there_are_named_before_anything_is_trained(monkeypatch, tmp_path, capsys):
    missing = imagenet.Weights("no_such_package", "none.pth", "")
    monkeypatch.setitem(imagenet.WEIGHTS, "efficientnet-lite0", missing)
    flags = ["--only", "icam-lite:imagenet", "--data", "pipes:40", "--out", str(tmp_path / "runs")]
    assert main(["ablate", "peers", *flags]) == 2
    assert "no_such_package" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def in_this_process(monkeypatch):
    return sweeps_here(monkeypatch)


@pytest.mark.slow
def test_trained_there_and_timed_here(tmp_path, capsys, in_this_process):
    flags = [*LITTLE, "--data", a_set(tmp_path / "set"), "--only", "SqueezeExcitation", "--seeds", 2]
    flags = ["ablate", "maps", *flags, "--out", tmp_path / "there"]
    assert main([str(word) for word in (*flags, "--train-only")]) == 0
    assert in_this_process == ["maps-none"] * 2 + ["maps-SqueezeExcitation"] * 2
    assert "with --resume instead of --train-only makes the table" in capsys.readouterr().out
    assert not list((tmp_path / "there").rglob("*.onnx"))
    assert not (tmp_path / "there/ablation.md").exists()
    (tmp_path / "there").rename(tmp_path / "here")
    flags[-1] = tmp_path / "here"
    assert main([str(word) for word in (*flags, "--resume")]) == 0
    assert len(in_this_process) == 4, "nothing is trained again"
    out = capsys.readouterr().out
    head, _, none, squeeze = (line.strip("| ").split(" | ") for line in out.splitlines() if line.startswith("|"))
    assert head[-5:] == ["against none (95 %)", "float32 ms", "float32 change", "int8 ms", "int8 change"]
    assert int(squeeze[1].replace(",", "")) - int(none[1].replace(",", "")) == 24 * 1 + 1 + 24 + 24
    assert (none[-5], none[-3], none[-1]) == ("–", "–", "–")
    for row in (none, squeeze):
        median, low, high = map(float, re.fullmatch(r"(\S+) \((\S+)–(\S+)\)", row[-4]).groups())
        assert 0 < low <= median <= high
    assert re.fullmatch(r"[+-]\d+ %", squeeze[-3])
    text = (tmp_path / "here/ablation.md").read_text(encoding="utf-8")
    assert "2 seeds, from 0 on" in text
    assert "all files take turns" in text
    assert "| trained on | a GPU |" in text
    file = tmp_path / "here/maps-none/seed0-float32.onnx"
    before = file.stat().st_mtime_ns
    assert load(file).card.config["attention"] == ""
    assert main([str(word) for word in (*flags, "--resume")]) == 0
    assert file.stat().st_mtime_ns == before, "nor exported again"
    assert not (tmp_path / "here/maps-none/seed1-float32.onnx").exists(), "the first run alone is timed"


def test_a_file_that_cannot_be_had_has_no_time(tmp_path, monkeypatch, capsys):
    """In any of its runs; where the first has none, the second's is timed."""
    runs = {
        name: [PlannedRun("classify", ClassifyRecipe(size=32), tmp_path / name / seed) for seed in ("seed0", "seed1")]
        for name in ("none", "CBAM")
    }
    good, asked = exported_icam(), []

    def made(run, precision):
        asked.append((run.folder.parent.name, run.folder.name, precision))
        if precision == "int8" and (run.folder.parent.name == "CBAM" or run.folder.name == "seed0"):
            raise FovealError("the int8 file: expected logits near the model's, got others")
        (tmp_path / "some.onnx").write_bytes(good)
        return tmp_path / "some.onnx"

    monkeypatch.setattr(ablation_time, "exported", made)
    real, sessions = ablation_time.opened, []
    monkeypatch.setattr(ablation_time, "opened", lambda content: sessions.append(real(content)) or sessions[-1])
    columns = ablation_time.time_columns(runs, ("fp32", "int8"), 32)
    assert len(sessions) == 1 + 3, "the first one that is opened is slower than its like, and not timed"
    assert columns["int8 ms"]["CBAM"] == columns["int8 change"]["CBAM"] == "–"
    assert columns["int8 ms"]["none"] != "–"
    assert ("none", "seed1", "int8") in asked
    assert ("none", "seed1", "fp32") not in asked
    assert columns["float32 change"]["CBAM"] != "–"
    assert capsys.readouterr().err.startswith("CBAM in int8 is not timed: the int8 file: expected")


def exported_icam():
    model = create("icam-31k", classes=2, image=32, patch=8).eval()
    return export_onnx(model, classify_card("icam-31k", "icam", {}, size=32))


@pytest.mark.slow
def test_a_table_from_the_command_line(tmp_path, capsys):
    data = tmp_path / "set"
    data.mkdir()
    random = np.random.default_rng(0)
    rows = ["file,label,fold,group,campaign"]
    for index in range(18):
        label = index % 2
        Image.fromarray(random.integers(0, 80, (32, 32, 3), np.uint8) + np.uint8(120 * label)).save(
            data / f"{index:02d}.png"
        )
        rows.append(f"{index:02d}.png,{'bright' if label else 'dark'},{index // 2 % 3},g{index},{index // 4}")
    (data / "labels.csv").write_text("\n".join(rows), encoding="utf-8")
    flags = ["--data", str(data), "--size", "32", "--config", "{image: 32, patch: 8}", "--epochs", "1", "--batch", "4"]
    out = ["--folds", "0", "--device", "cpu", "--out", str(tmp_path / "out")]
    assert main(["ablate", "icam", "--only", "first", *flags, *out]) == 0
    printed = capsys.readouterr()
    assert "| adaptive | 31,371 |" in printed.out
    assert "| static | 30,171 |" in printed.out
    assert "| first | parameters | GFLOP | score | spread | accuracy | against adaptive (95 %) |" in printed.out
    assert (tmp_path / "out" / "ablation.md").read_text(encoding="utf-8").startswith("# icam on ")
    for kind in ("md", "csv", "tex"):
        text = (tmp_path / "out" / f"ablation.{kind}").read_text(encoding="utf-8")
        assert "Split test, one seed" in text
        assert "commit" in text
    assert main(["ablate", "icam", "--only", "first", *flags, *out]) == 2  # there is one already
    assert "--resume" in capsys.readouterr().err
    assert (
        main(
            ["ablate", "icam", *flags, "--fold-column", "campaign", "--folds", "0,5", "--out", str(tmp_path / "other")]
        )
        == 2
    )
    assert "--folds: expected numbers from 0 to 4, got 0,5" in capsys.readouterr().err


def test_a_peer_of_the_usual_size_is_its_preset():
    built = PEERS.variants(ClassifyRecipe(), OWN)["peers"]
    assert all(create(name).config == create(name, **recipe.config).config for name, recipe in built.items())
