"""`foveal ablate`: which variants there are, and a table of them."""

import numpy as np
import pytest
from PIL import Image

from foveal.app.cli import main
from foveal.deploy.measure.cost import weights
from foveal.errors import FovealError
from foveal.models.zoo import create
from foveal.tasks.classify.ablate import ICAM, PEERS, _variants
from foveal.tasks.classify.recipe import ClassifyRecipe


@pytest.mark.parametrize("table", ICAM)
def test_every_variant_can_be_built_and_differs_from_the_others(table):
    built = {name: create(recipe.model, **recipe.settings) for name, recipe in _variants("icam", table, ClassifyRecipe())[table].items()}
    assert len({model.config for model in built.values()}) == len(built)


def test_static_queries_are_adaptive_ones_without_their_projections():
    counts = {name: weights(create("icam-31k", **settings)) for name, settings in ICAM["first"].items()}
    assert counts == {"adaptive": 31_371, "static": 31_371 - 2 * 600}


def test_the_first_peer_is_the_one_to_compare_with():
    assert list(_variants("peers", "resnet-18", ClassifyRecipe())["peers"]) == [PEERS[0], "resnet-18"]
    built = _variants("peers", None, ClassifyRecipe(config={"first": "static"}, size=128))["peers"]
    assert {name: recipe.settings for name, recipe in built.items()} == {name: {"image": 128} for name in PEERS} | {
        PEERS[0]: {"first": "static"}
    }


@pytest.mark.parametrize(("what", "only", "near"), [("icm", None, "icam"), ("icam", "pach", "patch"), ("peers", "resnet-8", "resnet-18")])
def test_names_that_do_not_exist_get_the_nearest(what, only, near):
    with pytest.raises(FovealError, match=f"nearest is '{near}'"):
        _variants(what, only, ClassifyRecipe())


@pytest.mark.slow
def test_a_table_from_the_command_line(tmp_path, capsys):
    random = np.random.default_rng(0)
    rows = ["file,label,fold,group,campaign"]
    for index in range(18):
        label = index % 2
        Image.fromarray(random.integers(0, 80, (32, 32, 3), np.uint8) + np.uint8(120 * label)).save(tmp_path / f"{index:02d}.png")
        rows.append(f"{index:02d}.png,{'bright' if label else 'dark'},{index // 2 % 3},g{index},{index // 4}")
    (tmp_path / "labels.csv").write_text("\n".join(rows), encoding="utf-8")
    flags = ["--data", str(tmp_path), "--size", "32", "--config", "{image: 32, patch: 8}", "--epochs", "1", "--batch", "4"]
    out = ["--folds", "0", "--device", "cpu", "--out", str(tmp_path / "out")]
    assert main(["ablate", "icam", "--only", "first", *flags, *out]) == 0
    said = capsys.readouterr()
    assert "| adaptive | 31,371 |" in said.out
    assert "| static | 30,171 |" in said.out
    assert "| first | weights | GFLOP | score | spread | accuracy | against adaptive (95 %) |" in said.out
    assert (tmp_path / "out" / "ablation.md").read_text(encoding="utf-8").startswith("# icam on ")
    assert main(["ablate", "icam", "--only", "first", *flags, *out]) == 2  # there is one already
    assert "--resume" in capsys.readouterr().err
    assert main(["ablate", "icam", *flags, "--fold-column", "campaign", "--out", str(tmp_path / "other")]) == 2
    assert "--fold-column: expected --folds or --fold beside it" in capsys.readouterr().err
    assert main(["ablate", "icam", *flags, "--fold-column", "campaign", "--folds", "0,5", "--out", str(tmp_path / "other")]) == 2
    assert "--folds: expected numbers from 0 to 4, got 0,5" in capsys.readouterr().err
