"""`foveal ablate segment` and `segment-peers`: which variants there are, what these data make of them, and a table."""

import json
import re

import numpy as np
import pytest
from PIL import Image
from tasks.segment.squares import FIELDS, squares
from training.little import sweeps_here

import foveal
from foveal.app.cli import main
from foveal.errors import FovealError
from foveal.models import imagenet
from foveal.models.zoo import create
from foveal.tasks.segment import ablate_table
from foveal.tasks.segment.ablate import ABLATIONS, AS_IT_IS, BASE, PARTS, PEERS, WITH_IMAGENET
from foveal.tasks.segment.data import drawn_as_often
from foveal.tasks.segment.recipe import SegmentRecipe
from foveal.tasks.task import find_task
from foveal.training.sweep import PlannedRun, plan

ALL, OTHERS = ABLATIONS["segment"], ABLATIONS["segment-peers"]
RECIPE = SegmentRecipe(**FIELDS | {"epochs": 1})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return squares(tmp_path_factory.mktemp("squares"))


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    """Two seeds of an epoch."""
    folder = tmp_path_factory.mktemp("runs")
    planned = list(plan("segment", RECIPE.changed(data=str(data)), folder, [None], [0, 1]))
    for one in planned:
        fields = FIELDS | {"epochs": 1, "seed": one.recipe.seed}
        foveal.train("segment", data=str(data), out=one.folder, device="cpu", **fields)
    return planned


def read(folder):
    recipe = RECIPE.changed(data=str(folder))
    return recipe, find_task("segment").read(recipe)


def test_every_line_differs_from_the_recipe_in_what_it_names():
    base = SegmentRecipe()
    lines = ALL.variants(base, None)["parts"]
    assert next(iter(lines)) == AS_IT_IS
    assert lines[AS_IT_IS] == base
    changed = {name: one for part in PARTS.values() for name, one in part.items()}
    assert set(changed) - set(lines) == {"layers of queries: 1", "blocks of the path: 1"}, "what it is already"
    for name, line in lines.items():
        if name != AS_IT_IS:
            assert line != base
            assert line.changed(config={}, **{key: getattr(base, key) for key in changed[name].recipe}) == base
            assert line.config == dict(changed[name].config)
    assert create(BASE, **lines["without the presence gate"].config).gate is None
    assert create(BASE, **lines["without what images have in common"].config).common is None


def test_lines_follow_the_model():
    lines = ALL.variants(SegmentRecipe(model="icam-seg-small", config={"refine": 2}), ["layers", "refine"])["parts"]
    assert list(lines) == [
        AS_IT_IS,
        "layers of queries: 0",
        "layers of queries: 1",
        "blocks of the path: 0",
        "blocks of the path: 1",
    ]
    assert lines["layers of queries: 0"].config == {"refine": 2, "layers": 0}


@pytest.mark.parametrize(
    ("ablation", "fields", "only", "words"),
    [
        (ALL, {"model": "unet-8"}, None, "--model: expected an icam-seg, whose parts are left out, got unet-8"),
        (ALL, {"dice": 0.0}, ["dice"], "--only: expected a part that the recipe has, got dice"),
        (ALL, {"config": {"heads": 5}}, None, "the variant as it is of parts: .*divisor of the width 32"),
        (OTHERS, {"model": "unet-8"}, None, "--model: expected icam-seg, which the others are compared with"),
        (OTHERS, {"init_from": "imagenet"}, None, "--init-from: expected none, for models from scratch, got imagenet"),
    ],
)
def test_what_cannot_be_compared_is_named_before_anything_is_trained(ablation, fields, only, words):
    with pytest.raises(FovealError, match=words):
        ablation.variants(SegmentRecipe(**fields), only)


def test_what_these_data_do_without_is_not_left_out_once_more(tmp_path, capsys):
    """Squares are not thin; and of images that all have a finding, none is drawn or pasted into for it."""
    squares(tmp_path / "some")
    squares(tmp_path / "full", count=12)
    for number in range(0, 12, 3):
        labels = np.zeros((36, 40), np.uint8)
        labels[3:15, 4:17] = 1
        Image.fromarray(labels).save(tmp_path / f"full/masks/{number:03d}.png")
    dice, paste, found = "without Dice", "without pasted findings", "findings drawn as often as they are"
    cases = {"some": ({"found": 0.9}, [dice, paste, found]), "full": ({"skeleton": 1.0}, [dice])}
    for folder, (fields, kept) in cases.items():
        recipe, source = read(tmp_path / folder)
        lines = ALL.variants(recipe.changed(**fields), ["dice", "skeleton", "paste", "found"])["parts"]
        plans = {("parts", name): list(plan("segment", one, tmp_path, [None], [0, 1])) for name, one in lines.items()}
        left = ALL.distinct(plans, source)
        assert list(left) == [("parts", name) for name in (AS_IT_IS, *kept)]
        assert all(left[key] is plans[key] for key in left)
        words = "without skeleton recall: left out, on these data it trains as the recipe does\n"
        assert capsys.readouterr().err.count(words) == 1


def test_images_are_drawn_alike_up_to_the_share_that_has_a_finding():
    areas = np.zeros((8, 4), np.int64)
    areas[:, 0], areas[:5, 1], areas[4:6, 2] = 100, 7, 3
    assert np.array_equal(drawn_as_often(areas, 6 / 8), drawn_as_often(areas, 0.0))
    assert not np.array_equal(drawn_as_often(areas, 7 / 8), drawn_as_often(areas, 0.0))


def test_peers_are_trained_by_the_recipe_of_the_first():
    pytest.importorskip("transformers")
    assert [one for one in OTHERS.tables if ":" not in one] == list(PEERS)
    assert [one for one in OTHERS.tables if ":" in one] == [f"{name}:imagenet" for name in WITH_IMAGENET]
    base = SegmentRecipe(config={"layers": 2}, epochs=7)
    lines = OTHERS.variants(base, None)["peers"]
    assert next(iter(lines)) == BASE
    assert lines[BASE] == base
    assert lines["icam-seg-lite0"].config == {"layers": 2, "backbone": "efficientnet-lite0"}
    assert lines["maskformer-lite0"].config == {"backbone": "efficientnet-lite0"}
    assert {one.model for one in lines.values()} == {model for model, _ in PEERS.values()}
    for name, line in lines.items():
        assert line.init_from == ("imagenet" if name.endswith(", ImageNet") else None)
        assert line.changed(model=base.model, config=base.config, init_from=None) == base
    assert list(OTHERS.variants(base, ["unet-8"])["peers"]) == [BASE, "unet-8"]


def test_lines_that_begin_with_imagenet_have_such_weights(monkeypatch):
    """Asked for by the package's tensors: of Lite0, whatever they are."""
    lite = {name: one for name, one in create("efficientnet-lite0").state_dict().items() if not name.startswith("norm")}
    monkeypatch.setattr(imagenet, "read_weights", lambda preset: lite)
    for name, (model, config) in PEERS.items():
        made = create(model, **config) if model != "segformer-b0" else None
        if name in WITH_IMAGENET:
            assert imagenet.begin_with_imagenet(made, model) > 100
        elif made is not None:
            with pytest.raises(FovealError, match="--init-from imagenet: expected a model that has such weights"):
                imagenet.begin_with_imagenet(made, model)


def test_what_a_run_found_is_counted_once(runs, data, monkeypatch):
    _, source = read(data)
    first = ablate_table.counted(runs[0], source, "test")
    assert len(first.files) == len(source.indices("test"))
    pixels = [source.label_map(int(index)).size for index in source.indices("test")]
    assert sorted(first.confusions.sum((1, 2))) == sorted(pixels)
    monkeypatch.setattr(ablate_table, "load", None)
    again = ablate_table.counted(runs[0], source, "test")
    assert again.files == first.files
    assert np.array_equal(again.confusions, first.confusions)
    monkeypatch.setattr(ablate_table, "digest", lambda folder: "another")
    with pytest.raises(TypeError):
        ablate_table.counted(runs[0], source, "test")  # another model is asked


def test_data_that_have_changed_are_not_tested_on(runs, data, tmp_path):
    ablate_table.counted(runs[1], read(data)[1], "test")
    with pytest.raises(FovealError, match="expected the images, labels and splits of the training, got others"):
        ablate_table.counted(runs[1], read(squares(tmp_path / "others", count=27))[1], "test")


def test_the_folds_of_a_test_are_one():
    parts = [
        ablate_table.Counted(("c", "a"), np.arange(8).reshape(2, 2, 2)),
        ablate_table.Counted(("b",), np.arange(8, 12).reshape(1, 2, 2)),
    ]
    whole = ablate_table.pooled(parts)
    assert whole.files == ("a", "b", "c")
    assert whole.confusions[:, 0, 0].tolist() == [4, 8, 0]


def test_a_table_by_hand(runs, data, tmp_path, monkeypatch):
    """mIoU of one class: 6/10 and 8/10 of the first, 5/10 and 9/10 of the other."""
    _, source = read(data)
    files = tuple(source.file(int(index)) for index in source.indices("test"))
    hits = {("one", 0): 6, ("one", 1): 8, ("two", 0): 5, ("two", 1): 9}

    def counted(run, data, split):
        hit = hits[run.folder.parent.name, run.recipe.seed]
        return ablate_table.Counted(files, np.array([[[80, 0], [10 - hit, hit]]] * len(files)))

    monkeypatch.setattr(ablate_table, "counted", counted)
    monkeypatch.setattr(ablate_table, "read_result", lambda folder: {"parameters": 1234, "seconds": 5.4})
    monkeypatch.setattr(ablate_table, "time_columns", lambda variants, precisions, side: {})
    monkeypatch.setattr(ablate_table, "load", lambda folder, device: foveal.load(runs[0].folder))
    variants = {
        name: [PlannedRun("segment", RECIPE.changed(seed=seed), tmp_path / name / f"seed{seed}") for seed in (0, 1)]
        for name in ("one", "two")
    }
    table = ablate_table.table_of("parts", variants, source, ("fp32",))
    assert table.head == [
        "parts",
        "parameters",
        "mIoU of findings, test",
        "spread",
        "against one (95 %)",
        "training s",
    ]
    assert table.rows == [
        ["one", "1,234", "70.0", "14.1", "–", "5"],
        ["two", "1,234", "70.0", "28.3", "+0.0 (+0.0 to +0.0)", "5"],
    ]


@pytest.mark.slow
def test_a_table_from_the_command_line(data, tmp_path, capsys, monkeypatch):
    done = sweeps_here(monkeypatch)
    flags = ["--config", json.dumps(FIELDS["config"]), "--device", "cpu", "--epochs", 1, "--size", 32, "--zoom", 1]
    flags = [*flags, "--batch", 4, "--data", data, "--only", "presence,skeleton", "--seeds", 2, "--out", tmp_path / "o"]
    words = [str(word) for word in ("ablate", "segment", *flags)]
    assert main([*words, "--train-only"]) == 0
    printed = capsys.readouterr()
    assert "without skeleton recall: left out" in printed.err
    lines = ["parts-as-it-is", "parts-without-the-presence-loss", "parts-without-the-presence-gate"]
    assert done == [one for one in lines for _ in range(2)]
    assert main(words) == 2  # there is one already
    assert "--resume" in capsys.readouterr().err
    assert main([*words, "--resume"]) == 0
    assert len(done) == 6, "nothing is trained again"
    out = capsys.readouterr().out
    head, _, base, loss, gate = (line.strip("| ").split(" | ") for line in out.splitlines() if line.startswith("|"))
    assert head[4:] == ["against as it is (95 %)", "float32 ms", "float32 change", "training s"]
    assert (base[4], base[6]) == ("–", "–")
    parameters = [int(row[1].replace(",", "")) for row in (base, loss, gate)]
    assert parameters[0] == parameters[1] == parameters[2] + 8 + 1
    for row in (loss, gate):
        assert re.fullmatch(r"[+-]\d+\.\d \([+-]\d+\.\d to [+-]\d+\.\d\)", row[4])
        assert re.fullmatch(r"\d+\.\d\d \(\d+\.\d\d–\d+\.\d\d\)", row[5])
    text = (tmp_path / "o/ablation.md").read_text(encoding="utf-8")
    assert "2 seeds, from 0 on. mIoU of findings" in text
    assert {file.name for file in (tmp_path / "o").glob("ablation.*")} == {
        f"ablation.{kind}" for kind in ("md", "csv", "tex")
    }
