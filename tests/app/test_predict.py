"""`foveal predict`, as it is typed."""

import csv
import io
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from cards import classify_card
from PIL import Image

from foveal.app import cli
from foveal.models.store import describe, load_model, save_model
from foveal.models.zoo import create
from foveal.runtime import packaged
from foveal.runtime.image import open_image
from foveal.runtime.image_predictor import opened
from foveal.tasks.classify import predict as classify_predict
from foveal.tasks.classify.card import ClassifyCard

CLASSES = ("hole", "root, wet", "wurzel·ß")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    torch.manual_seed(0)
    net = create("icam-31k", classes=3, image=32, patch=8)
    net.head[-1].weight.data *= 30  # so that images differ
    family, config = describe(net)
    path = tmp_path_factory.mktemp("run") / "model.safetensors"
    save_model(net.eval(), path, classify_card("icam-31k", family, config, CLASSES, multi_label=True, size=32))
    return path


@pytest.fixture
def folder(tmp_path):
    """11 images of different size, two of them broken; and what is no image."""
    place = tmp_path / "images"
    (place / "deep" / "er").mkdir(parents=True)
    (place / ".hidden").mkdir()
    random = np.random.default_rng(3)
    for number in range(11):
        where = place / ("deep/er" if number > 7 else "") / f"{number:02d}.{'png' if number % 2 else 'jpg'}"
        pixels = random.integers(0, 256, (3 + number, 5, 3), np.uint8)
        Image.fromarray(pixels).resize((40 + number, 61)).save(where)
    (place / "04.jpg").write_bytes((place / "04.jpg").read_bytes()[:300])
    (place / "06.jpg").write_bytes(b"")
    (place / "notes.txt").write_text("no image")
    (place / ".hidden" / "a.png").write_bytes(b"")
    return place


def typed(capsys, *words):
    status = cli.main(["predict", *map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_csv(model, folder, capsys):
    status, out, err = typed(capsys, model, folder)
    assert (status, err) == (0, "11 images, 2 could not be read\n")
    assert out.splitlines()[0] == 'file,found,hole,"root, wet",wurzel·ß,error'
    table = rows(out)
    assert [row["file"].rpartition("/")[2][:2] for row in table] == [f"{number:02d}" for number in range(11)]
    assert [bool(row["error"]) for row in table] == [number in (4, 6) for number in range(11)]
    assert table[6]["error"] == "is empty (0 bytes)"
    assert table[6]["hole"] == ""
    for row in table:
        if not row["error"]:
            found = {name for name in CLASSES if float(row[name]) >= 0.5}
            assert set(filter(None, row["found"].split(";"))) == found
    assert len({row["hole"] for row in table}) == 10


def test_jsonl_has_the_same(model, folder, capsys):
    table = rows(typed(capsys, model, folder)[1])
    lines = [json.loads(line) for line in typed(capsys, model, folder, "--format", "jsonl")[1].splitlines()]
    assert [line["file"] for line in lines] == [row["file"] for row in table]
    assert lines[6] == {"file": table[6]["file"], "error": "is empty (0 bytes)"}
    assert set(lines[0]) == {"file", "found", "probability"}
    assert [line["probability"]["hole"] for line in lines if "error" not in line] == pytest.approx(
        [float(row["hole"]) for row in table if not row["error"]]
    )


def test_table(model, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)  # columns stand in line as long as names are short
    status, out, _ = typed(capsys, model.parent, "00.jpg", "06.jpg", "--format", "table", "--threshold", 0)
    head, first, second = out.splitlines()
    assert status == 0  # a run's folder is a model, too
    assert head.split() == ["image", "found"]
    assert all(f"{name} 0." in first or f"{name} 1." in first for name in CLASSES)
    assert second.startswith("06.jpg ")
    assert second.endswith(" error: is empty (0 bytes)")
    assert second.index("error") == head.index("found")
    assert typed(capsys, model, "00.jpg", "--format", "table", "--threshold", 1)[1].split()[-2:] == [
        "00.jpg",
        "nothing",
    ]


def test_batches_do_not_matter(model, folder, capsys):
    one, seven = (rows(typed(capsys, model, folder, "--batch", batch)[1]) for batch in (1, 7))
    assert len(one) == 11
    for left, right in zip(one, seven, strict=True):
        assert (left["file"], left["found"], left["error"]) == (right["file"], right["found"], right["error"])
        if not left["error"]:
            assert [float(left[name]) for name in CLASSES] == pytest.approx(
                [float(right[name]) for name in CLASSES], abs=2e-6
            )


def test_as_in_training(model, folder, capsys):
    """The file goes through runtime/image.py at the card's size, and nothing else touches it."""
    net, card = load_model(model, ClassifyCard)
    pixels = torch.from_numpy(open_image(folder / "01.png", 32)).permute(2, 0, 1).double() / 255
    mean, std = (torch.tensor(values, dtype=torch.float64)[:, None, None] for values in (card.mean, card.std))
    with torch.no_grad():
        expected = torch.sigmoid(net(((pixels - mean) / std)[None].float()))[0]
    (row,) = rows(typed(capsys, model, folder / "01.png")[1])
    assert [float(row[name]) for name in CLASSES] == pytest.approx(expected.tolist(), abs=2e-6)


def test_patterns_and_their_order(model, folder, capsys):
    out = typed(capsys, model, folder / "**" / "*.png", folder / "00.jpg")[1]
    assert [row["file"].rpartition("/")[2] for row in rows(out)] == [
        "01.png",
        "03.png",
        "05.png",
        "07.png",
        "09.png",
        "00.jpg",
    ]
    everything = typed(capsys, model, f"{folder}/**")[1]
    names = [row["file"] for row in rows(everything)]
    assert len(names) == len(set(names)) == 12  # also notes.txt, which the pattern names
    (folder / "[a].png").write_bytes((folder / "01.png").read_bytes())
    assert len(rows(typed(capsys, model, folder / "[a].png")[1])) == 1  # a file of that very name is no pattern


def test_a_list_on_stdin(model, folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{folder}/01.png\r\n\n{folder}/none.png\n{folder}/03.png"))
    status, out, err = typed(capsys, model, folder / "00.jpg", "-")
    assert [Path(row["file"]).name for row in rows(out)] == ["00.jpg", "01.png", "none.png", "03.png"]
    assert (status, rows(out)[2]["error"]) == (0, "no such file")
    for flag in ("-z", "--null"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{folder}/01.png\0{folder}/a\nb.png\0"))
        status, out, err = typed(capsys, model, "-", flag)
        assert [row["file"] for row in rows(out)] == [f"{folder}/01.png", f"{folder}/a\nb.png"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    status, out, err = typed(capsys, model, "-")
    assert (status, out) == (2, "")
    assert "the list on stdin" in err


@pytest.mark.parametrize("out", [False, True])
def test_a_list_that_cannot_be_read_is_not_reported_as_an_output_that_cannot_be_written(
    model, tmp_path, capsys, monkeypatch, out
):
    folder = os.open(tmp_path, os.O_RDONLY)  # to read from a folder is an error of the system's
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(fileno=lambda: folder))
    status, _, err = typed(capsys, model, "-", *(["--out", tmp_path / "found.csv"] if out else []))
    os.close(folder)
    assert (status, err) == (2, "foveal: error: cannot read the list on stdin: Is a directory\n")


BUFFERED = {**os.environ, "PYTHONUNBUFFERED": ""}


def test_a_live_list_is_answered_as_it_comes(model, folder):
    with subprocess.Popen(
        [sys.executable, "-m", "foveal", "predict", str(model), "-", "--batch", "1", "--format", "jsonl"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=BUFFERED,
    ) as process:  # fmt: skip
        for name in ("01.png", "03.png"):
            process.stdin.write(f"{folder}/{name}\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["file"].endswith(name)  # before stdin ends
        out, err = process.communicate()
    assert (process.returncode, out, err) == (0, "", "")


def test_a_closed_pipe_ends_in_silence(model, folder):
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(  # stdin stays open: whoever waits for it does not keep the process
        [sys.executable, "-m", "foveal", "predict", str(model), str(folder), "-"],
        stdin=subprocess.PIPE,
        stdout=writer,
        stderr=subprocess.PIPE,
        env=BUFFERED,
    ) as process:
        os.close(writer)
        process.stdin.write(f"{folder}/01.png\n".encode() * 40)
        process.stdin.flush()
        assert (process.wait(timeout=300), process.stderr.read()) == (0, b"")


def test_out_ends_as_what_is_written(model, folder, tmp_path, capsys):
    status, _, err = typed(capsys, model, folder / "01.png", "--out", tmp_path / "p.json")
    assert status == 2
    assert err == (
        f"foveal: error: --out: expected a name that ends in .csv or .jsonl or .ndjson, got {tmp_path}/p.json; or "
        "add --format\n"
    )
    status, _, err = typed(capsys, model, folder / "01.png", "--out", tmp_path / "p.txt", "--format", "csv")
    assert (status, err) == (0, f"1 image, all read; wrote {tmp_path}/p.txt\n")


def test_out_is_written_whole_or_not_at_all(model, folder, tmp_path, capsys, monkeypatch):
    out = tmp_path / "new" / "rows.jsonl"
    status, text, err = typed(capsys, model, folder, "--out", out)
    assert (status, text) == (0, "")
    assert err == f"11 images, 2 could not be read; wrote {out}\n"
    before = out.read_text()
    assert len([json.loads(line) for line in before.splitlines()]) == 11
    real, calls = classify_predict._json, []

    def stopped(*words):
        calls.append(words)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return real(*words)

    monkeypatch.setattr(classify_predict, "_json", stopped)
    assert typed(capsys, model, folder, "--out", out)[0] == 130
    assert out.read_text() == before
    assert [path.name for path in out.parent.iterdir()] == ["rows.jsonl"]
    assert typed(capsys, model, folder, "--out", tmp_path)[0] == 2
    assert typed(capsys, model, folder, "--out", folder / "00.jpg" / "x.csv")[0] == 2


def test_only_broken_images(model, folder, capsys):
    status, out, err = typed(capsys, model, folder / "04.jpg", folder / "06.jpg", folder / "notes.txt")
    assert status == 2
    assert len(rows(out)) == 3
    assert err == "3 images, 3 could not be read\n"


def test_names_that_are_no_unicode(model, folder, tmp_path, capsys):
    strange = os.fsencode(folder) + b"/\xff.png"
    with open(strange, "wb") as file:  # noqa: PTH123
        file.write((folder / "01.png").read_bytes())
    out = tmp_path / "rows.csv"
    assert typed(capsys, model, os.fsdecode(strange), "--out", out)[0] == 0
    assert strange in out.read_bytes()
    assert typed(capsys, model, os.fsdecode(strange), "--out", tmp_path / "r.jsonl")[0] == 0
    assert json.loads((tmp_path / "r.jsonl").read_text())["file"] == os.fsdecode(strange)


def test_without_a_model_the_packaged_one(folder, capsys, monkeypatch, tmp_path):
    assert typed(capsys, folder / "00.jpg") == typed(capsys, "icam-fast-pipes", folder / "00.jpg")
    monkeypatch.setattr(packaged, "WEIGHTS", tmp_path)
    status, out, err = typed(capsys, folder / "00.jpg")
    assert (status, out) == (2, "")
    assert "no model was named, and this foveal comes without icam-fast-pipes" in err


@pytest.mark.parametrize(
    "words", [[], ["--format", "xml"], ["--batch", "0"], ["--threshold", "2"], ["--device", "abacus"]]
)
def test_bad_words(model, folder, capsys, words):
    status, out, err = typed(capsys, model, *([folder] if words else []), *words)
    assert (status, out) == (2, "")
    assert err.startswith("foveal: error: ")
    assert err.count("\n") == 1


def test_places_without_images(model, tmp_path, capsys):
    for word, says in ((tmp_path, "got one without"), (tmp_path / "*.png", "matches none")):
        status, out, err = typed(capsys, model, word)
        assert (status, out) == (2, "")
        assert says in err


def test_files_that_are_no_models(model, folder, tmp_path, capsys):
    content = model.read_bytes()
    for name, damaged in (
        ("cut", content[:-1000]),
        ("head", content[:50]),
        ("text", b"no model at all"),
        ("empty", b""),
    ):
        path = tmp_path / f"{name}.safetensors"
        path.write_bytes(damaged)
        status, out, err = typed(capsys, path, folder)
        assert (status, out) == (2, "")
        assert str(path) in err
        assert err.count("\n") == 1
    assert typed(capsys, tmp_path / "none.safetensors", folder)[0] == 2
    for name in ("model.pt", "model.pt2"):
        assert f"the model {name}: expected a file or a run's folder that exists" in typed(capsys, name, folder)[2]
        (tmp_path / name).write_bytes(b"PK")
        status, out, err = typed(capsys, tmp_path / name, folder)
        assert (status, out) == (2, "")
        assert "got neither" in err
    assert "put the model first" in typed(capsys, model, folder, model)[2]


def test_progress_leaves_the_rows_alone(model, folder, capsys, monkeypatch):
    """On a terminal, rich shows a bar on stderr and takes sys.stdout for that time:
    the rows go where they were meant.
    """
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    status, out, _ = typed(capsys, model, folder)
    assert status == 0
    assert len(rows(out)) == 11


def test_what_decodes_ahead_stops_with_whoever_asked(folder):
    asked = []

    def endless():
        while True:
            asked.append(1)
            yield str(folder / "01.png")

    threads = threading.active_count()
    stream = opened(endless(), 16, threads=2)
    assert next(stream)[1].pixels.shape == (16, 16, 3)
    stream.close()
    for _ in range(1000):
        before = len(asked)
        time.sleep(0.05)
        if len(asked) == before and threading.active_count() <= threads + 2:
            break
    assert before < 20
    assert threading.active_count() <= threads + 2  # the feeder has ended; the pool's own may still be on their way out

    def broken():
        yield str(folder / "01.png")
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(opened(broken(), 16))


def test_a_word_that_names_nothing_is_refused_before_anything_is_predicted(
    model, folder, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(classify_predict.Classifier, "answers", lambda *_: pytest.fail("predicted"))
    out = tmp_path / "rows.csv"
    assert typed(capsys, model, folder, tmp_path / "nothing*", "--out", out)[0] == 2
    assert not out.exists()


def test_a_mistyped_model_is_never_answered_by_another(folder, capsys):
    for name, says in (
        ("icam-fast-pips", "no model is called 'icam-fast-pips'; the nearest is 'icam-fast-pipes'"),
        ("runs/in/gone", "the model runs/in/gone: expected a file or a run's folder that exists, got none there"),
        ("icam-31k", "icam-31k: expected a trained model, got a preset with random weights"),
    ):
        status, out, err = typed(capsys, name, folder / "00.jpg")
        assert (status, out) == (2, "")
        assert says in err
        assert err.count("\n") == 1


def test_out_never_replaces_what_is_read(model, folder, tmp_path, capsys):
    for out in (model, folder / "01.png"):
        before = out.read_bytes()
        status, text, err = typed(capsys, model, folder, "--out", out)
        assert (status, text) == (2, "")
        assert "--out: expected another name than what is read" in err
        assert out.read_bytes() == before


def test_an_exported_file_predicts_the_same(model, folder, tmp_path, capsys):
    assert cli.main(["export", str(model), "--out", str(tmp_path / "m.onnx")]) == 0
    capsys.readouterr()
    one, other = (rows(typed(capsys, name, folder)[1]) for name in (model, tmp_path / "m.onnx"))
    assert [(row["file"], row["found"], row["error"]) for row in one] == [
        (row["file"], row["found"], row["error"]) for row in other
    ]
