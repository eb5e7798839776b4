"""Every preset in every precision and runtime, for any batch, beside the model it comes from.

And the proof that goes with the file.
"""

import csv
import dataclasses
import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from cards import classify_card
from grid import first_is_quick
from PIL import Image

from foveal.app.cli import main
from foveal.data.pipes import render
from foveal.deploy.measure.clock import interleaved
from foveal.deploy.onnx.archive import texts
from foveal.deploy.onnx.fp16 import halved
from foveal.deploy.onnx.quantise import HALVED, blame, plans
from foveal.errors import FovealError
from foveal.models.mbconv import Stage
from foveal.models.zoo import create, presets
from foveal.tasks.classify.export import LIMITS, Limits
from foveal.tasks.classify.graph import Answers, export_onnx, ready_for_int8
from foveal.tasks.classify.graph_torch import export_program, export_script, load_program, load_script
from foveal.tasks.classify.prove import ProofImages, by_onnxruntime, by_torch, prove
from foveal.tasks.load import load
from foveal.vision.same_shape import SAME_SHAPE

LEAN = {
    "activation": "relu",
    "stages": (Stage(16, expand=1, squeeze=False), Stage(24, blocks=2, stride=2, squeeze=False)),
}


def frames(count, side=56, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, side, side, 3), np.uint8)


def small(name="icam-31k", **settings):
    """A preset on images of 56 × 56, with BatchNorm that has seen something."""
    torch.manual_seed(0)
    own = {"icam-fast": {"patch": 28, "pool": 2}, "icam-lite": {"patch": 56, "pool": 7}}
    settings = {"image": 56} | own.get(name, {"patch": 14}) | settings
    model = create(name, classes=3, **settings).train()
    with torch.no_grad():
        for _ in range(3):
            model(torch.randn(6, 3, settings["image"], settings["image"]))
    return model.eval(), classify_card(name, "icam", {}, ("a", "b", "c"), size=56)


def ready(model, card, shown):
    return ready_for_int8(model, card, export_onnx(model, card), shown)


@pytest.fixture(scope="module", params=first_is_quick(sorted(presets("icam"))))
def answering(request):
    """name of a runtime and precision → the answers of this preset in it."""
    model, card = small(request.param)
    plain = export_onnx(model, card)
    answers = {
        "fp32, onnxruntime": (by_onnxruntime(plain), 1e-4),
        "fp16, onnxruntime": (by_onnxruntime(halved(plain)), 0.02),
        "fp32, TorchScript": (by_torch(load_script(export_script(model, card))), 1e-4),
        "fp32, torch.export": (by_torch(load_program(export_program(model, card))), 1e-4),
    }
    made = {
        plan.name: plan for plan in plans(ready(model, card, frames(16, seed=1)), frames(16, seed=1), frames(8, seed=2))
    }
    # so small, icam-fast has no other wide map
    plan = made.get("wide ones") or made["all convolutions, and what stands between"]
    answers["int8, onnxruntime"] = (by_onnxruntime(plan.content), 0.3)
    return model, card, answers


@pytest.mark.parametrize("batch", first_is_quick([3, 1, 17]))
def test_every_precision_and_runtime_says_the_same(answering, batch):
    model, card, answers = answering
    assert len(answers) == 5
    for name, (answer, limit) in answers.items():
        parity = prove(answer, model, card, ProofImages(frames(batch), "noise"))
        assert parity.frames == batch
        assert parity.largest < limit, name
        assert parity.maps < limit, name
    assert parity.before is None


@pytest.mark.slow
@pytest.mark.parametrize("name", SAME_SHAPE)
def test_attention_on_the_map_is_exported(name):
    """Inside of the loop over patches, as the rest of Φ is; and with 8 bits, on maps that are large enough for them."""
    model, card = small(patch=28, attention=name)
    with torch.no_grad():
        for part in model.attention.modules():
            if isinstance(part, torch.nn.BatchNorm2d):
                part.weight.uniform_(0.5, 1)  # NonLocal's begins at 0, as if it were not there
    plain, images = export_onnx(model, card), ProofImages(frames(3), "noise")
    parity = prove(by_onnxruntime(plain), model, card, images)
    assert parity.largest < 1e-4
    assert parity.maps < 1e-4
    kinds = [node.op_type for node in onnx.load_model_from_string(plain).graph.node]
    assert (kinds.count("Scan"), kinds.count("Conv")) == (1, 1), "the mixer's convolution alone is outside"
    shown = frames(16, seed=1)
    found = plans(ready(model, card, shown), shown, images.frames)
    for plan in found:
        near = prove(by_onnxruntime(plan.content), model, card, images)
        assert near.mean < 0.1, plan.name
        assert np.isfinite(near.maps)


@pytest.mark.slow
def test_half_the_file():
    model, card = small()
    plain = export_onnx(model, card)
    assert len(halved(plain)) < 0.75 * len(plain)


@pytest.mark.slow
def test_a_number_that_16_bits_cannot_hold_stays():
    model, card = small()
    with torch.no_grad():
        model.head[3].weight[0, 0] = 1e6
    parity = prove(by_onnxruntime(halved(export_onnx(model, card))), model, card, ProofImages(frames(2), "noise"))
    assert np.isfinite(parity.largest)


@pytest.mark.slow
def test_the_figure_that_decides_is_in_the_proof():
    model, card = small()
    images = ProofImages(frames(12), "noise", np.arange(12) % 3)
    parity = prove(by_onnxruntime(export_onnx(model, card)), model, card, images)
    logits = model(
        (torch.from_numpy(images.frames).permute(0, 3, 1, 2) / 255 - torch.tensor(card.mean)[:, None, None])
        / torch.tensor(card.std)[:, None, None]
    )
    right = logits.argmax(1).numpy() == images.labels
    expected = np.mean([right[images.labels == label].mean() for label in range(3)])
    assert parity.figure == "balanced accuracy"
    assert parity.before == pytest.approx(expected)
    assert parity.after == pytest.approx(expected)


@pytest.mark.slow
def test_a_first_convolution_reads_bytes_as_they_come():
    model, card = small(image=112, patch=56, stem_kernel=4, stem_stride=4, **LEAN)
    card = dataclasses.replace(card, size=112)
    shown = frames(8, 112, seed=1)
    shown[0, :2], shown[0, 2:4] = 0, 255  # so that a byte is worth exactly itself
    files = ready(model, card, shown)
    found = {plan.name: plan.content for plan in plans(files, shown, shown)}
    kinds = {name: kinds_of(content) for name, content in found.items()}
    assert kinds["all convolutions, and what stands between"].count("Cast") == 0
    assert kinds["all convolutions but the first, and what stands between"].count("Cast") == 1
    parity = prove(
        by_onnxruntime(found["all convolutions, and what stands between"]), model, card, ProofImages(shown, "noise")
    )
    assert parity.mean < 0.1
    quantised = kinds["all convolutions, and what stands between"]
    assert quantised.count("LayerNormalization") == 5  # vectors stay as they were
    dull = plans(files, shown[1:] // 2, shown)  # no byte above 127: the cast has to stay
    assert all("Cast" in kinds_of(plan.content) for plan in dull)


def kinds_of(content):
    """Of nodes that have something to do once the file is open."""
    graph = onnx.load_model_from_string(content).graph
    held = {one.name for one in graph.initializer}
    return [node.op_type for node in graph.node if node.op_type != "Cast" or node.input[0] not in held]


@pytest.mark.slow
def test_what_stays_in_float_lies_in_16_bits_and_is_widened_once(tmp_path):
    model, card = small(queries=4)
    whole = plans(ready(model, card, frames(16, seed=1)), frames(16, seed=1), frames(8, seed=2))[0].content
    graph = onnx.load_model_from_string(whole).graph
    halves = {one.name for one in graph.initializer if one.data_type == onnx.TensorProto.FLOAT16}
    assert halves
    assert all(np.prod(one.dims) < HALVED for one in graph.initializer if one.data_type == onnx.TensorProto.FLOAT)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "opened.onnx")
    onnxruntime.InferenceSession(whole, options)
    opened = onnx.load(tmp_path / "opened.onnx").graph
    assert not halves & {one.name for one in opened.initializer}
    assert "Cast" not in [node.op_type for node in opened.node if node.input[0] in halves]
    told = {one.name for one in (*graph.input, *graph.output)}
    assert all(
        len(name) < 4 for node in graph.node for name in (node.name, *node.input, *node.output) if name not in told
    )


@pytest.mark.slow
def test_blame_names_the_worst_first():
    model, card = small(image=112, patch=56, **LEAN)
    card = dataclasses.replace(card, size=112)
    shown = frames(8, 112, seed=1)
    found = blame(ready(model, card, shown), shown, frames(8, 112, seed=2))
    assert len(found) == 8  # the last projection is of vectors, and the mixer makes a small map
    assert [one.error for one in found] == sorted((one.error for one in found), reverse=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run's model, and its images in a folder of their own."""
    runs, place = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("set")
    rows = [("file", "label", "split")]
    for number in range(24):
        Image.fromarray(render(5_000_000 + number, 64).image).save(place / f"{number}.png")
        rows.append((f"{number}.png", ("a", "b")[number % 2], ("train", "train", "val", "test")[number // 6]))
    with (place / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    words = [
        "train",
        "classify",
        "--data",
        place,
        "--size",
        "56",
        "--config",
        "{image: 56, patch: 14}",
        "--epochs",
        "1",
        "--batch",
        "6",
    ]
    assert main([str(word) for word in [*words, "--device", "cpu", "--out", runs / "run"]]) == 0
    return runs / "run"


@pytest.mark.parametrize(
    ("name", "precision"), first_is_quick([("m.onnx", "fp32"), ("m.onnx", "fp16"), ("m.pt", "fp32"), ("m.pt2", "fp32")])
)
def test_the_proof_of_an_export(run, name, precision, tmp_path, capsys):
    assert main(["export", str(run), "--out", str(tmp_path / name), "--precision", precision]) == 0
    out = capsys.readouterr().out
    assert "6 images of the validation split" in out
    assert "balanced accuracy" in out
    proof = json.loads((tmp_path / f"{name}.proof.json").read_text(encoding="utf-8"))
    assert proof["precision"] == precision
    assert proof["maps"] < 0.01
    assert proof["before"] is not None
    assert proof["bytes_before_this_proof"] <= (tmp_path / name).stat().st_size
    assert proof["sound"]
    assert proof["milliseconds"]["file"]["median"] > 0
    if name.endswith(".onnx"):
        assert load(tmp_path / name).exported.proof == proof
    else:
        assert json.loads(texts(tmp_path / name)["foveal.proof"]) == proof
    assert main(["show", str(tmp_path / name)]) == 0
    shown = capsys.readouterr().out
    assert f"  digest_before_this_proof: {proof['digest_before_this_proof']}\n" in shown
    assert '  classes: ["a", "b"]\n' in shown


@pytest.mark.slow
def test_an_int8_file_that_is_no_gain_is_refused_and_says_who_is_to_blame(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(LIMITS, "int8", Limits(mean=1e-9, points=0.5, faster=True))
    assert main(["export", str(run), "--out", str(tmp_path / "m.onnx"), "--precision", "int8"]) == 2
    error = capsys.readouterr().err
    assert "most of it is of the maps of node_" in error
    assert "nothing was written" in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", first_is_quick(["probability", "found", "maps"]))
def test_a_file_that_says_something_else_is_not_written(run, wrong, tmp_path, capsys, monkeypatch):
    right = Answers.forward

    def forward(self, given):
        probability, found, logits, maps, *rest = right(self, given)
        changed = {
            "probability": (1 - probability, found, logits, maps),
            "found": (probability, ~found, logits, maps),
            "maps": (probability, found, logits, maps.flip(-1)),
        }
        return (*changed[wrong], *rest)

    monkeypatch.setattr(Answers, "forward", forward)
    assert main(["export", str(run), "--out", str(tmp_path / "m.onnx")]) == 2
    error = capsys.readouterr().err
    assert "nothing was written" in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_interrupted_export_leaves_the_old_file_and_its_proof(run, tmp_path, monkeypatch):
    assert main(["export", str(run), "--out", str(tmp_path / "m.onnx")]) == 0
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("foveal.tasks.classify.export.write_export", interrupted)
    assert main(["export", str(run), "--out", str(tmp_path / "m.onnx"), "--precision", "fp16"]) == 130
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.slow
def test_a_preset_without_weights_is_reported(tmp_path, capsys):
    assert main(["export", "icam-30k", "--out", str(tmp_path / "m.onnx")]) == 0
    assert "icam-30k: no weights come with foveal, so they are random" in capsys.readouterr().out
    with pytest.raises(FovealError, match="no model is called 'icam-3k'"):
        load("icam-3k")


@pytest.mark.slow
def test_an_int8_file_that_is_no_gain_in_time_is_written_anyway_where_asked(run, tmp_path, capsys, monkeypatch):
    """A plan that takes longer than float32 is refused, unless --anyway."""
    slow = interleaved

    def slower(jobs, **options):
        taken = slow(jobs, **options)
        return {
            name: one if name in ("float", "float32") else dataclasses.replace(one, median=one.median + 9)
            for name, one in taken.items()
        }

    monkeypatch.setattr("foveal.deploy.onnx.quantise.interleaved", slower)
    monkeypatch.setattr("foveal.tasks.classify.prove.interleaved", slower)
    words = ["export", str(run), "--out", str(tmp_path / "m.onnx"), "--precision", "int8"]
    assert main(words) == 2
    assert "add --anyway" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert main([*words, "--anyway"]) == 0
    assert load(tmp_path / "m.onnx").exported.proof["precision"] == "int8"
