"""foveal bench models: exported files, runs and others' graphs side by side, checked before they are timed."""

import dataclasses
import json
import re
from xml.etree import ElementTree as ET

import numpy as np
import onnx
import pytest
import torch
import torch._inductor.config
from cards import classify_card
from onnx import TensorProto, helper
from tasks.segment.painted import painted
from tasks.segment.read_graph import written
from tasks.translate.translator import made

from foveal.app.cli import main
from foveal.app.command.bench.graph import Contender, Size, of_graph, takes_any_size
from foveal.app.command.bench.models import _check, short_names
from foveal.app.command.bench.resolution import exponent
from foveal.app.command.bench.tiled import tiled
from foveal.errors import FovealError
from foveal.models.store import describe, save_model
from foveal.models.zoo import create
from foveal.runtime.onnx_session import opened
from foveal.tasks.load import load
from foveal.tasks.model import Model
from foveal.tasks.task import find_task
from foveal.tasks.translate.graph import export_translator
from foveal.tasks.translate.onnx_engine import TIMED, OnnxEngine, random_decoding


def graph(operator="Relu", side="batch", pixels=8):
    """A peer that does one thing to images of 8 × 8."""
    given, made_of = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [side, 3, pixels, 8]) for name in ("x", "y")
    )
    made = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "peer", [given], [made_of])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    return model.SerializeToString()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    place = tmp_path_factory.mktemp("files")
    torch.manual_seed(0)
    model = create("icam-31k", classes=2, image=28, patch=14).eval()
    family, config = describe(model)
    card = classify_card("icam-31k", family, config, ("a", "b"), size=28)
    Model(find_task("classify"), card, place, network=model, device="cpu").export(place / "small.onnx")
    (place / "peer.onnx").write_bytes(graph())
    return place


def test_whole_sentences_are_timed(tmp_path, capsys):
    network, card = made()
    (tmp_path / "t.onnx").write_bytes(export_translator(network, card))
    save_model(network, tmp_path / "run/model.safetensors", card)
    words = [str(tmp_path / "t.onnx"), str(tmp_path / "run"), "--batch", "1,3", "--rounds", "2", "--out", str(tmp_path)]
    assert main(["bench", "models", *words]) == 0
    output = capsys.readouterr().out
    assert "checked: 2 contenders, with the same answers twice" in output
    assert "batch 3: t: " in output
    assert "batch 3: run: " in output


def test_every_sentence_that_is_timed_takes_as_many_steps():
    network, card = made()
    engine = OnnxEngine(opened(export_translator(network, card)), card.config)
    assert [len(tokens) for tokens in random_decoding(engine)(3)()] == [TIMED - 1] * 3


def test_the_table_and_its_figures(files, tmp_path, capsys):
    words = [
        "bench",
        "models",
        files / "small.onnx",
        "--peer",
        files / "peer.onnx",
        "--batch",
        "1,3",
        "--rounds",
        "3",
        "--out",
        tmp_path,
    ]
    assert main([str(word) for word in words]) == 0
    output = capsys.readouterr().out
    assert "checked: 2 contenders, with the same answers twice" in output
    (drawn,) = tmp_path.glob("models-*.svg")
    picture = ET.fromstring(drawn.read_text(encoding="utf-8"))
    assert len(picture.findall("{*}polyline")) == 2
    assert {"small", "peer", "ms per sample"} <= {text.text for text in picture.findall("{*}text")}
    (file,) = tmp_path.glob("models-*.json")
    content = json.loads(file.read_text(encoding="utf-8"))
    assert set(content["seconds"]) == {"batch 1", "batch 3"}
    assert set(content["seconds"]["batch 3"]) == {"small", "peer"}
    rows = {row["what"]: row for row in content["rows"]}
    assert rows["batch 1: small"]["ratio"] is None
    seconds = content["seconds"]["batch 1"]
    assert rows["batch 1: peer"]["ratio"] == pytest.approx(seconds["peer"]["median"] / seconds["small"]["median"])
    assert f"{(files / 'small.onnx').stat().st_size:,} bytes" in rows["small: costs"]["ours"]
    held = float(rows["small: costs"]["ours"].split(" MB at most")[0].split()[-1])
    assert 0 < held < 200


@pytest.mark.slow
def test_torch_runs_beside_it(tmp_path, capsys):
    assert (
        main(
            [
                "bench",
                "models",
                "icam-30k",
                "--runtime",
                "onnxruntime,torch,script",
                "--rounds",
                "1",
                "--out",
                str(tmp_path),
            ]
        )
        == 0
    )
    output = capsys.readouterr()
    assert "icam-30k: no weights come with foveal" in output.out
    for name in ("icam-30k", "icam-30k (torch)", "icam-30k (script)"):
        assert f"batch 1: {name}: " in output.out
    assert "29,691 parameters" in output.out
    assert not output.err


def run_small(monkeypatch, tmp_path, *words):
    """A model of one layer, so that torch.compile has little to do."""
    made = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 5 * 5, 2), torch.nn.SiLU()).eval()
    made.example = lambda batch=1: (torch.zeros(batch, 3, 5, 5),)
    model = Model(find_task("classify"), classify_card("small", size=5), network=made, device="cpu")
    monkeypatch.setattr("foveal.app.command.bench.models.load", lambda name, **_: model)
    return main(["bench", "models", "small", *words, "--rounds", "2", "--out", str(tmp_path)])


@pytest.mark.slow
def test_compiling_is_timed_apart_from_running(monkeypatch, tmp_path, capsys):
    # pays for many graphs only. Inductor's own patch: pytest's takes a setting away where it ends
    with torch._inductor.config.patch(cpp_cache_precompile_headers=False):
        assert run_small(monkeypatch, tmp_path, "--runtime", "torch,compile", "--batch", "3") == 0
    output = capsys.readouterr().out
    assert "checked: 2 contenders" in output
    (file,) = tmp_path.glob("models-*.json")
    content = json.loads(file.read_text(encoding="utf-8"))
    rows = {row["what"]: row for row in content["rows"]}
    seconds, batch = rows["small (compile): compiled before the warm-up"]["ours"].split(" s for batch ")
    assert float(seconds) > 0
    assert batch == "3"
    assert rows["batch 3: small (compile)"]["ratio"] is not None
    # no round of them had to compile
    assert content["seconds"]["batch 3"]["small (compile)"]["median"] < float(seconds)
    assert "small (torch): compiled" not in output


def test_without_a_compiler_the_others_are_timed(monkeypatch, tmp_path, capsys):
    torch._dynamo.reset()
    with torch._inductor.config.patch({"cpp.cxx": (None, str(tmp_path / "g++"))}):
        check_without_a_compiler(monkeypatch, tmp_path, capsys)


def check_without_a_compiler(monkeypatch, tmp_path, capsys):
    assert run_small(monkeypatch, tmp_path, "--runtime", "compile,torch") == 0
    output = capsys.readouterr().out
    assert (
        "small (compile): left out: torch.compile: expected a C++ compiler, got none that works; install g++, or name "
        "one in CXX\n" in output
    )
    assert "checked: 1 contender, with the same answers twice" in output
    assert "batch 1: small (torch): " in output
    assert "batch 1: small (compile)" not in output
    assert run_small(monkeypatch, tmp_path, "--runtime", "compile") == 2
    error = capsys.readouterr().err
    assert "--runtime: expected one that this machine has, got compile; add onnxruntime or torch" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "at least one model, got none"),
        (["icam-30k", "--batch", "0"], "--batch: expected integers from 1 to 4,096"),
        (["icam-30k", "--batch", "few"], "--batch: expected integers from 1 to 4,096"),
        (["icam-30k", "--runtime", "onnx"], "no runtime is called 'onnx'"),
        (["icam-9k"], "no model is called 'icam-9k'; the nearest is 'icam-31k'"),
        (["none.onnx"], "the model none.onnx: expected a file or a run's folder that exists"),
        (["small.onnx", "small.onnx"], "one of each name"),
        (["small.onnx", "--peer", "broken.onnx"], "broken: expected an ONNX graph"),
        (["small.onnx", "--peer", "fixed.onnx", "--batch", "2"], "any batch, or 2"),
        (["free.onnx"], "sides with numbers, but for the batch, got ['batch', 3, 'h', 8]; give --size"),
        (["small.onnx", "--size", "32"], "sides of 32 pixels, or free ones, got ['batch', 28, 28, 3]; give --size 28"),
        (["small.onnx", "--size", "0"], "--size: expected different integers from 1 to 4,096"),
        (["small.onnx", "--size", "28,32"], "--size: expected one integer, as contenders are timed side by side"),
        (["small.onnx", "--runtime", "torch"], "onnxruntime for an exported file"),
        (["small.onnx", "--device", "cuda"], "auto or cpu"),
    ],
)
def test_bad_ones_get_one_line(files, words, says, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(files)
    (files / "broken.onnx").write_bytes(b"onnx?")
    (files / "fixed.onnx").write_bytes(graph(side=1))
    (files / "free.onnx").write_bytes(graph(pixels="h"))
    assert main(["bench", "models", *words, "--rounds", "1", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def shapes_seen(contender, batch=1):
    return [answer.shape for answer in contender.job(batch)()]


def test_free_sides_get_the_size_that_was_asked_for_or_else_the_models(tmp_path):
    model = load(written(tmp_path / "reads.onnx", size=37))
    content = (tmp_path / "reads.onnx").read_bytes()
    assert takes_any_size("reads", content)
    usual, asked = (of_graph("reads", content, 1, size=Size(side).or_of(model)) for side in (None, 53))
    assert shapes_seen(usual, 2)[0] == (2, 37, 37)
    assert shapes_seen(asked)[0] == (1, 53, 53)
    assert "images of 53 × 53" in asked.facts
    assert not takes_any_size("peer", graph())
    half = of_graph("half", graph(pixels="h"), 1, size=Size(usual=5))
    assert shapes_seen(half, 3) == [(3, 3, 5, 8)]


def test_segmenters_and_a_peer_are_timed_at_one_size(tmp_path, capsys):
    files = [written(tmp_path / f"{name}.onnx", size=size) for name, size in (("one", 31), ("two", 29))]
    (tmp_path / "free.onnx").write_bytes(graph(pixels="h"))
    words = [*map(str, files), str(tmp_path / "free.onnx"), "--size", "41", "--rounds", "1", "--out", str(tmp_path)]
    assert main(["bench", "models", *words[:2], *words[3:]]) == 0
    output = capsys.readouterr().out
    assert "batch 1: two: " in output
    assert output.count("images of 41 × 41") == 2
    assert output.count("MB at most while it runs") == 2
    assert main(["bench", "models", *words]) == 2
    assert "sides of 41 pixels, or free ones, got ['batch', 3, 'h', 8]" in capsys.readouterr().err
    del words[3:5]  # the first model's size
    assert main(["bench", "models", *words]) == 0
    output = capsys.readouterr().out
    assert "two: costs: reads" in output
    assert "images of 29 × 29" in output
    assert "images of 8 × 31" in output


def test_a_run_keeps_its_own_size_where_torch_runs_it(tmp_path, capsys):
    """Trained at 24, of a network whose example has 32."""
    network = create("unet-8", image=32, classes=2).eval()
    card = dataclasses.replace(find_task("segment").new_card("unet-8", network), size=24)
    save_model(network, tmp_path / "run/model.safetensors", card)
    words = [str(tmp_path / "run"), "--runtime", "torch", "--rounds", "1", "--out", str(tmp_path)]
    assert main(["bench", "models", *words]) == 0
    assert "MFLOP at 32 × 32" in capsys.readouterr().out
    assert main(["bench", "models", *words, "--size", "24"]) == 2
    assert "--size: expected 32, the side of what" in capsys.readouterr().err


@pytest.mark.slow
def test_a_preset_of_label_maps_is_built_for_the_size(tmp_path, capsys):
    words = ["unet-8", "--size", "48", "--runtime", "onnxruntime,torch", "--rounds", "1", "--out", str(tmp_path)]
    assert main(["bench", "models", *words]) == 0
    output = capsys.readouterr().out
    assert "images of 48 × 48" in output
    assert "batch 1: unet-8 (torch): " in output


def test_translators_have_no_size(tmp_path, capsys):
    assert main(["bench", "models", "transformer-base", "--size", "32", "--out", str(tmp_path)]) == 2
    assert "transformer-base: expected a model of images, got one for the task translate" in capsys.readouterr().err


def test_models_are_for_models_only(capsys, tmp_path):
    assert main(["bench", "crossover", "icam-31k", "--out", str(tmp_path)]) == 2
    assert "no model, got icam-31k" in capsys.readouterr().err


def test_a_model_that_answers_otherwise_is_refused():
    draw = np.random.default_rng(0)
    with pytest.raises(FovealError, match="the same answer twice"):
        _check(Contender("dropout", lambda batch: lambda: draw.random(3)))


def test_a_preset_without_weights_is_new_and_the_same_each_time():
    model, other = load("icam-30k", config={"classes": 3}), load("icam-30k", config={"classes": 3})
    assert model.random
    assert model.classes == ("class 0", "class 1", "class 2")
    assert all(torch.equal(a, b) for a, b in zip(model.network.parameters(), other.network.parameters(), strict=True))
    assert not load("icam-pipes").random


def test_the_empty_graph_is_one():
    from foveal.deploy.measure.footprint import EMPTY

    onnx.checker.check_model(onnx.load_model_from_string(EMPTY))


def test_how_time_grows_with_pixels():
    assert exponent((224, 448, 896), [1.0, 4.0, 16.0]) == pytest.approx(1)
    assert exponent((224, 448, 896), [1.0, 16.0, 256.0]) == pytest.approx(2)


@pytest.mark.slow
def test_resolution(tmp_path, capsys, monkeypatch, files):
    monkeypatch.setattr("foveal.app.command.bench.resolution.SIDES", (224, 448))
    words = [
        "bench",
        "resolution",
        "icam-30k",
        "vit-24",
        "--peer",
        files / "peer.onnx",
        "--rounds",
        "1",
        "--out",
        tmp_path,
    ]
    assert main([str(word) for word in words]) == 0
    output = capsys.readouterr().out
    for name in ("icam-30k", "vit-24", "peer"):
        assert f"448 × 448: {name}: " in output
        assert f"{name}: grows with pixels to the power: " in output
    assert main(["bench", "resolution", "icam-pipes", "--rounds", "1", "--out", str(tmp_path)]) == 2
    assert "a preset or a peer, which can be built for any side" in capsys.readouterr().err


def test_large_images_are_seen_as_a_whole_and_in_tiles(tmp_path, capsys):
    file = written(tmp_path / "reads.onnx", size=32)
    words = [str(file), "--peer", str(tmp_path / "peer.onnx"), "--size", "48,80", "--rounds", "1"]
    (tmp_path / "peer.onnx").write_bytes(graph())
    assert main(["bench", "resolution", *words, "--tile", "32", "--out", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    for name in ("reads", "reads in tiles of 32", "peer"):
        assert re.search(rf"80 × 80: {name}: .* ms \(.*\), [\d.]+ MB at most · .* × the time at 48\n", output)
        assert f"{name}: grows with pixels to the power: " in output
    assert len(list(tmp_path.glob("resolution-reads-peer-*.svg"))) == 1


def test_a_model_in_tiles_answers_as_predict_does(tmp_path):
    model = load(written(tmp_path / "reads.onnx"))
    label_map = np.random.default_rng(0).integers(0, 3, (53, 97))
    (found,) = model.predict(painted(label_map), tile=32, overlap=16)
    seen, scores = model.in_tiles(32)(painted(label_map))
    np.testing.assert_array_equal(seen, found.label_map)
    np.testing.assert_array_equal(scores, found.scores)


def test_memory_in_tiles_is_less_than_as_a_whole(tmp_path):
    file, side = written(tmp_path / "reads.onnx"), 1600
    whole = of_graph("reads", file.read_bytes(), 1, size=Size(side)).footprint(1)
    in_tiles = tiled("tiles", file, load(file).in_tiles(64), side, 64, 1).footprint(1)
    assert in_tiles.ran < whole.ran / 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["small.onnx"], "small.onnx: expected a preset or a peer, which can be built for any side"),
        (["--size", "9,9"], "--size: expected different integers"),
        (["--tile", "0"], "--tile: expected at least 1, got 0"),
        (["reads.onnx", "reads.onnx"], "the models: expected each once"),
        (["--peer", "peer.onnx", "peer.onnx", "--tile", "64"], "the models: expected each once"),
        (["peer.onnx", "--tile", "64"], "--tile: expected a model that sees images in tiles, got none; leave it out"),
        (["transformer-base"], "transformer-base: expected a model of images, got one for the task translate"),
    ],
)
def test_bad_resolutions_get_one_line(files, words, says, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(files)
    written(files / "reads.onnx")
    assert main(["bench", "resolution", *words, "--rounds", "1", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_files_of_one_name_have_names_of_their_own():
    files = ["a/m.onnx", "b/m.onnx", "icam-31k", "runs/x/model.onnx", "c/b/m.onnx"]
    assert list(short_names(files).values()) == ["a/m", "b/m", "icam-31k", "model", "c/b/m"]
    assert short_names(["m.onnx"]) == {"m.onnx": "m"}
    assert short_names(["a/m", "a/m.onnx"]) == {"a/m": "m", "a/m.onnx": "m.onnx"}
