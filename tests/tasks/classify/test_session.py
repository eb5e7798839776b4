"""An exported file, opened without torch: the same answers, and one clear line for any file that is none."""

import dataclasses
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from cards import classify_card
from grid import first_is_quick
from PIL import Image

from foveal.app.cli import main
from foveal.deploy.onnx.file import write_export
from foveal.errors import FovealError
from foveal.explain.saliency import attention_maps
from foveal.models.store import describe, save_model
from foveal.models.zoo import create
from foveal.runtime.card import read_card
from foveal.runtime.exported import Session
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.classify.export import LIMITS, Limits
from foveal.tasks.classify.graph import export_onnx
from foveal.tasks.classify.predict import OnnxClassifier
from foveal.tasks.classify.predict_torch import TorchClassifier
from foveal.tasks.classify.prove import ProofImages, by_onnxruntime, prove
from foveal.tasks.classify.session import ClassifySession
from foveal.tasks.load import load
from foveal.tasks.stages import save

SIDE = 56
KINDS = {
    "several labels": {"multi_label": True, "threshold": (0.4, 0.5, 0.6), "temperature": 1.7},
    "one label": {"multi_label": False},
    "two classes": {"multi_label": False, "threshold": (0.45,), "classes": ("no", "yes")},
    "text masked": {"multi_label": True, "recipe": {"blank": [[0, 0, 0.5, 0.25]]}},
}


def made(kind="several labels", name="icam-31k"):
    settings = {"classes": ("crack", "root, wet", "wurzel·ß"), "size": SIDE} | KINDS[kind]
    torch.manual_seed(0)
    sides = {"image": SIDE, "patch": 14} if name.startswith("icam") else {"image": 64}
    model = create(name, classes=len(settings["classes"]), **sides).train()
    with torch.no_grad():
        model(torch.randn(8, 3, sides["image"], sides["image"]))
        for parameter in (
            model.parameters() if name.startswith("icam") else ()
        ):  # a deep peer would turn rounding into noise
            parameter.add_(0.05 * torch.randn_like(parameter))  # answers that differ from image to image
    family, config = describe(model)
    return model.eval(), classify_card(
        **{"model": name, "family": family, "config": config} | settings | {"size": sides["image"]}
    )


def session_of(file, threads=1):
    exported = Session(file, threads)
    return ClassifySession(exported, read_card(exported.card, str(file), ClassifyCard))


def frames(count, side=SIDE, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, side, side, 3), np.uint8)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "model.onnx"
    model, card = made()
    content = export_onnx(model, card)
    write_export(content, {"largest": 1e-6}, path)
    return path


@pytest.mark.parametrize("kind", first_is_quick(list(KINDS)))
def test_the_same_answers_as_torch(kind, tmp_path):
    model, card = made(kind)
    write_export(export_onnx(model, card), {}, tmp_path / "m.onnx")
    session = session_of(tmp_path / "m.onnx")
    assert session.card == card
    classifier = TorchClassifier(model, card, "cpu")
    for count in (1, 3, 17):
        images = frames(count, seed=count)
        answers = session(images)
        probability = classifier.probabilities_of(classifier.prepare(list(images)))
        np.testing.assert_allclose(answers["probability"], probability, atol=2e-6)
        np.testing.assert_array_equal(answers["found"], classifier.found(probability))
        for threshold in (None, 0.37) if kind != "one label" else (None,):
            mine = list(OnnxClassifier(session, 5, threshold).predict(images))
            theirs = list(TorchClassifier(model, card, "cpu", 7, threshold).predict(images))
            assert [one.found for one in mine] == [one.found for one in theirs]
    maps = attention_maps(model, classifier.prepare(list(images))).maps
    expected = np.concatenate([grid.reshape(*grid.shape[:3], -1) for grid in maps.values()], 1)
    np.testing.assert_allclose(answers["attention"], expected, atol=1e-6)
    assert answers["attention"].shape == (17, 1 + 2 * 2, 1, 16)  # the first queries' map, then two layers of two heads


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet-v2", "efficientnet-lite0"])
def test_a_peer(tmp_path, name):
    model, card = made("one label", name)
    content = export_onnx(model, card)
    parity = prove(by_onnxruntime(content), model, card, ProofImages(frames(5, 64), "noise"))
    assert parity.frames == 5
    assert parity.largest < 1e-5
    assert parity.agree == 1.0
    write_export(content, {}, tmp_path / "peer.onnx")
    assert "attention" not in session_of(tmp_path / "peer.onnx").outputs


def test_a_proof_sees_a_wrong_file():
    model, card = made()
    content = export_onnx(model, card)
    with torch.no_grad():
        model.head[-1].bias[1] += 0.25
    parity = prove(by_onnxruntime(content), model, card, ProofImages(frames(6), "noise"))
    assert parity.largest == pytest.approx(0.25, abs=1e-4)
    assert parity.mean == pytest.approx(0.25 / 3, abs=1e-4)


def card_in(content):
    return read_card(
        {entry.key: entry.value for entry in onnx.load_model_from_string(content).metadata_props}["foveal"],
        "it",
        ClassifyCard,
    )


@pytest.mark.slow
def test_no_folder_of_this_machine_is_in_it(file):
    content = file.read_bytes()
    proto = onnx.load_model_from_string(content)
    assert proto.ir_version == 8
    assert [(one.domain, one.version) for one in proto.opset_import] == [("", 18)]
    model, card = made()
    trained = dataclasses.replace(
        card, recipe={"data": "/home/somebody/photos", "init_from": "/secret/run", "teachers": None}
    )
    assert card_in(export_onnx(model, trained)).recipe == {"data": "photos", "init_from": "run", "teachers": None}
    assert b"site-packages" not in content
    assert b".py" not in content
    assert session_of(file).proof == {"largest": 1e-6}
    assert len(content) < 200_000


def test_no_torch(file, tmp_path):
    """Neither torch nor anything that trains is loaded by the runtime or by `foveal predict` of an exported file;
    of data sets nothing but the names of splits, which are in an option.
    """
    Image.fromarray(frames(1)[0]).save(tmp_path / "a.png")
    words = ["predict", str(file), str(tmp_path / "a.png"), "--format", "jsonl"]
    program = (
        "import sys\n"
        "from foveal.app.cli import main\n"
        f"status = main({words!r})\n"
        "print(sorted(set(sys.modules) & {'torch', 'onnx', 'yaml', 'safetensors'}))\n"
        "print(*sorted({name.split('.', 1)[1] for name in sys.modules if name.startswith('foveal.')}))\n"
        "sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    row, modules, ours = done.stdout.splitlines()
    assert json.loads(row)["file"].endswith("a.png")
    assert modules == "[]"
    rooms = {name.partition(".")[0] for name in ours.split() if "." in name}
    assert rooms == {"app", "data", "report", "runtime", "tasks"}
    assert [name for name in ours.split() if name.startswith("data.")] == ["data.splits"]


# --- files that are none, and calls that are wrong --------------------------------------------------------------------


def changed(file, tmp_path, change):
    proto = onnx.load(str(file))
    change(proto)
    path = tmp_path / "changed.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def with_card(**facts):
    def change(proto):
        for entry in proto.metadata_props:
            if entry.key == "foveal":
                entry.value = json.dumps(json.loads(entry.value) | facts)

    return change


def rename_output(proto):
    for node in proto.graph.node:
        node.output[:] = ["other" if name == "found" else name for name in node.output]
    next(one for one in proto.graph.output if one.name == "found").name = "other"


BROKEN = {
    "no card": (lambda proto: proto.ClearField("metadata_props"), "an ONNX file without foveal's card"),
    "a newer foveal": (with_card(foveal="99.0.0"), "upgrade foveal"),
    "other classes": (
        with_card(classes=["a", "b"], threshold=[0.5, 0.5], config={}),
        "logits for the card's 2 classes",
    ),
    "another size": (with_card(size=64), "of the card's side, 64"),
    "no answer": (rename_output, "none called found"),
    "a proof that is none": (lambda proto: setattr(proto.metadata_props[1], "value", "[1"), "a proof in JSON"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_file_that_promises_what_it_does_not_hold(file, tmp_path, kind):
    change, words = BROKEN[kind]
    with pytest.raises(FovealError) as caught:
        session_of(changed(file, tmp_path, change))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"no onnx at all", b"\x08\x07" * 50, "half"])
def test_a_file_that_is_no_model(file, tmp_path, capsys, content):
    path = tmp_path / "broken.onnx"
    path.write_bytes(file.read_bytes()[:40_000] if content == "half" else content)
    Image.fromarray(frames(1)[0]).save(tmp_path / "a.png")
    assert main(["predict", str(path), str(tmp_path / "a.png")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"foveal: error: {path}: expected an ")
    assert captured.err.count("\n") == 1


def fixed(name):
    def change(proto):
        for one in proto.graph.input if name == "frames" else proto.graph.output:
            if one.name == name:
                one.type.tensor_type.shape.dim[0].dim_value = 1

    return change


def test_a_file_for_one_frame_only(file, tmp_path):
    with pytest.raises(FovealError, match="any number of frames"):
        session_of(changed(file, tmp_path, fixed("frames")))


def test_wrong_outputs(file):
    session = session_of(file)
    for wrong in (["nope"], [], "logits"):
        with pytest.raises(FovealError, match="outputs: expected some of probability, found, logits, attention"):
            session(frames(1), wrong)


def test_rows_that_are_not_there(file, monkeypatch):
    session = session_of(file)
    broken = SimpleNamespace(run=lambda names, feed: [np.zeros((1, 3))])
    monkeypatch.setattr(session.answers, "session", broken)
    with pytest.raises(FovealError, match="3 rows, one per frame, got 1"):
        session(frames(3), ["logits"])


def test_wrong_frames(file):
    session = session_of(file)
    for wrong in (
        frames(1, 32),
        frames(1)[0],
        frames(1).astype(np.float32),
        np.zeros((0, SIDE, SIDE, 3), np.uint8),
        "frames",
    ):
        with pytest.raises(FovealError, match="frames: expected uint8"):
            session(wrong)
    with pytest.raises(FovealError, match="threads"):
        session_of(file, threads=0)
    with pytest.raises(FovealError, match="cannot read"):
        session_of(file.parent / "none.onnx")


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", first_is_quick(["several labels", "text masked"]))
def test_export_as_it_is_typed(kind, tmp_path, capsys, monkeypatch):
    model, card = made(kind)
    save_model(model, tmp_path / "model.safetensors", card)
    out = tmp_path / "out.onnx"
    assert main(["export", str(tmp_path / "model.safetensors"), "--out", str(out)]) == 0
    out_text = capsys.readouterr().out
    assert f"wrote {out}" in out_text
    assert "on 64 rendered frames" in out_text
    proof = json.loads((tmp_path / "out.onnx.proof.json").read_text())
    assert proof == session_of(out).proof
    assert proof["largest"] < 1e-4
    for words, message in (
        (["--out", "a.txt"], "--out: expected a name that ends in .onnx, .pt, .pt2, got a.txt"),
        (["--out", "a.pt", "--precision", "int8"], "--precision: expected fp32 for a .pt file, got int8"),
        (["--out", "b.onnx", "--precision", "int3"], "--precision: expected one of fp32"),
    ):
        assert main(["export", str(tmp_path / "model.safetensors"), *words]) == 2
        assert message in capsys.readouterr().err
    monkeypatch.setitem(LIMITS, "fp32", Limits(largest=1e-12))
    assert main(["export", str(tmp_path / "model.safetensors"), "--out", str(tmp_path / "bad.onnx")]) == 2
    assert "nothing was written" in capsys.readouterr().err
    assert not (tmp_path / "bad.onnx").exists()


def test_what_cannot_be_exported(tmp_path, capsys):
    model, card = made()
    save_model(model, tmp_path / "m.safetensors", dataclasses.replace(card, size=60))
    assert main(["export", str(tmp_path / "m.safetensors"), "--out", str(tmp_path / "m.onnx")]) == 2
    err = capsys.readouterr().err
    assert "one that patches of 14 divide, got 60" in err
    assert err.count("\n") == 1
    save_model(model, tmp_path / "m.safetensors", card)
    (tmp_path / "m.onnx.proof.json").mkdir()
    assert main(["export", str(tmp_path / "m.safetensors"), "--out", str(tmp_path / "m.onnx")]) == 2
    assert not (tmp_path / "m.onnx").exists()


def test_a_build_that_looks_nowhere(tmp_path):
    torch.manual_seed(0)
    model = create("icam-30k", classes=3, image=SIDE, patch=14, layers=0, first="static").eval()
    family, config = describe(model)
    write_export(
        export_onnx(model, classify_card("icam-30k", family, config, ("a", "b", "c"), size=SIDE)),
        {},
        tmp_path / "m.onnx",
    )
    assert session_of(tmp_path / "m.onnx").outputs == ("probability", "found", "logits")


def test_an_exported_file_is_on_the_processor(file, tmp_path, capsys):
    Image.fromarray(frames(1)[0]).save(tmp_path / "a.png")
    assert main(["predict", str(file), str(tmp_path / "a.png"), "--device", "cuda:7"]) == 2
    assert "--device: expected auto or cpu for an exported file, got cuda:7" in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_blanked_is_explained_as_torch_explains_it(tmp_path):
    """The boxes cover the first two cells of 4 × 4: whatever is there is never seen,
    so that nothing can be lost without it.
    """
    network, card = made("text masked")
    save_model(network, tmp_path / "m.safetensors", card)
    write_export(export_onnx(network, card), {}, tmp_path / "m.onnx")
    photo = frames(1)[0]
    other = photo.copy()
    other[: SIDE // 4, : SIDE // 2] = 7
    for name, pixels in (("a.png", photo), ("b.png", other)):
        Image.fromarray(pixels).save(tmp_path / name)
    models = load(tmp_path / "m.onnx"), load(tmp_path / "m.safetensors", device="cpu")
    mine, theirs = (model.explain(str(tmp_path / "a.png")) for model in models)
    assert mine.facts["answer"] == theirs.facts["answer"]
    for ours, others in zip(mine.facts["attention"], theirs.facts["attention"], strict=True):
        np.testing.assert_allclose(ours["map"], others["map"], atol=2e-6)
    # a mean colour is an integer there
    np.testing.assert_allclose(mine.facts["occlusion"], theirs.facts["occlusion"], atol=0.02)
    assert mine.facts["occlusion"][0][:2] == theirs.facts["occlusion"][0][:2] == [0, 0]
    assert np.count_nonzero(mine.facts["occlusion"]) > 3
    for model, one in zip(models, (mine, theirs), strict=True):
        assert model.explain(str(tmp_path / "b.png")).facts == one.facts | {"file": str(tmp_path / "b.png")}
        side = len(one.sheet.photo)  # the sheet shows what was given to the model
        assert (one.sheet.photo[: side // 4, : side // 2] == 128).all()
        assert (one.sheet.photo[side // 4 + 1 :] != 128).mean() > 0.9


@pytest.mark.slow
def test_a_file_without_attention_is_explained_by_occlusion(tmp_path, capsys):
    pytest.importorskip("transformers")
    file = save(create("mobilenet-v2"), tmp_path / "peer.safetensors")
    assert main(["export", str(file), "--out", str(tmp_path / "peer.onnx")]) == 0
    capsys.readouterr()
    Image.fromarray(frames(1, 64)[0]).save(tmp_path / "a.png")
    assert (
        main(["explain", str(tmp_path / "peer.onnx"), str(tmp_path / "a.png"), "--out", str(tmp_path / "b.png")]) == 0
    )
    assert "a model whose attention looks at the image" in capsys.readouterr().out
    assert (tmp_path / "b.png").exists()
