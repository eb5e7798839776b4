"""`foveal ablate`: which variants there are, and a table of them."""

import numpy as np
import pytest
from PIL import Image

from foveal.app.cli import main
from foveal.deploy.measure.cost import parameters
from foveal.errors import FovealError
from foveal.models.zoo import create
from foveal.tasks.classify.ablate import ABLATIONS, PARTS, PEERS
from foveal.tasks.classify.recipe import ClassifyRecipe

ICAM, PEERS_ABLATION = ABLATIONS["icam"], ABLATIONS["peers"]


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
    odd = ClassifyRecipe(size=63, config={"image": 63, "patch": 21})
    with pytest.raises(FovealError, match="--size: expected a multiple of 4"):
        ICAM.variants(odd, ["patch"])


def test_a_variant_that_cannot_be_built_is_named_before_anything_is_trained():
    with pytest.raises(FovealError, match=r"the variant 4 heads of heads: .*heads"):
        ICAM.variants(ClassifyRecipe(config={"width": 18}), ["heads"])


def test_static_queries_are_adaptive_ones_without_their_projections():
    counts = {name: parameters(create("icam-31k", **fields)) for name, fields in PARTS["first"].items()}
    assert counts == {"adaptive": 31_371, "static": 31_371 - 2 * 600}


def test_the_first_peer_is_the_one_to_compare_with():
    pytest.importorskip("transformers")
    assert list(PEERS_ABLATION.variants(ClassifyRecipe(), ["resnet-18"])["peers"]) == [PEERS[0], "resnet-18"]
    built = PEERS_ABLATION.variants(ClassifyRecipe(config={"first": "static"}, size=112 * 2), None)["peers"]
    assert {name: recipe.config for name, recipe in built.items()} == {name: {"image": 224} for name in PEERS} | {
        PEERS[0]: {"first": "static"}
    }


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
