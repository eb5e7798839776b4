"""The card and the proof in torch's archives: torch finds them, the graph stays as it was,
and reading them runs nothing.
"""

import io
import json
import subprocess
import sys
import zipfile

import pytest
import torch
from cards import classify_card

from foveal.app.cli import main
from foveal.deploy.onnx.archive import texts, with_text
from foveal.models.zoo import create
from foveal.tasks.classify.graph_torch import export_program, export_script

PROOF = {"largest": 0.25, "images": "drawn in Köln"}


def made(export):
    torch.manual_seed(0)
    return export(
        create("icam-30k", classes=2, image=28, patch=14).eval(),
        classify_card("icam-30k", "icam", {}, ("a", "b"), size=28),
    )


def by_script(content):
    extra = {"foveal": "", "foveal.proof": ""}
    return torch.jit.load(io.BytesIO(content), _extra_files=extra), extra


def by_program(content):
    extra = {"foveal": "", "foveal.proof": ""}
    return torch.export.load(io.BytesIO(content), extra_files=extra).module(), extra


@pytest.mark.parametrize(
    ("export", "load", "suffix"), [(export_script, by_script, ".pt"), (export_program, by_program, ".pt2")]
)
def test_torch_reads_what_was_put_in(export, load, suffix, tmp_path):
    before = made(export)
    after = with_text(before, "foveal.proof", json.dumps(PROOF))
    assert after == with_text(before, "foveal.proof", json.dumps(PROOF))
    frames = torch.randint(0, 256, (3, 28, 28, 3), dtype=torch.uint8)
    (plain, _), (proven, extra) = load(before), load(after)
    assert json.loads(extra["foveal.proof"]) == PROOF
    assert all(torch.equal(a, b) for a, b in zip(plain(frames), proven(frames), strict=True))
    (tmp_path / f"m{suffix}").write_bytes(after)
    found = texts(tmp_path / f"m{suffix}")
    assert json.loads(found["foveal.proof"]) == PROOF
    assert json.loads(found["foveal"])["classes"] == ["a", "b"]


class Evil:
    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return open, (str(self.place), "w")


def test_nothing_in_a_file_is_run(tmp_path):
    mark = tmp_path / "was-run"
    for name in ("m.pt", "m.pt2"):
        torch.save(Evil(mark), tmp_path / name)
        with zipfile.ZipFile(tmp_path / name, "a") as archive:
            archive.writestr("m/extra/foveal", '{"model": "x\\u001b[2J"}')
        code = (
            "import sys; from foveal.app.cli import main; "
            f"assert main(['show', {str(tmp_path / name)!r}]) == 0; assert 'torch' not in sys.modules"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert '  model: "x\\u001b[2J"\n' in done.stdout
    assert not mark.exists()
    torch.load(tmp_path / "m.pt", weights_only=False).close()
    assert mark.exists()  # the file would have


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.pt", b"no zip", "expected an archive of torch's, got a file that cannot be opened as one"),
        ("a.pt2", b"", "expected an archive of torch's"),
        ("a.pt", "plain", "expected a model that foveal wrote, got a file without foveal's card"),
        (
            "a.pt",
            {"m/extra/foveal": "[]"},
            "expected a card and a proof in JSON, got something else; the file is damaged",
        ),
        ("a.pt", {"m/extra/foveal": b"\xff"}, "expected an archive of torch's"),
        ("a.pt", zipfile.ZIP_DEFLATED, "expected an archive of torch's"),
        ("a.pt", zipfile.ZIP_LZMA, "expected an archive of torch's"),
        ("a.pt", {"m/other/extra/foveal": "{}"}, "a file without foveal's card"),
        ("a.onnx", b"onnx?", "expected an exported model"),
        ("a.safetensors", b"no header", "expected a .safetensors file"),
        ("a.pt", None, "cannot read"),
    ],
)
def test_damaged_ones_get_one_line(name, content, says, tmp_path, capsys):
    file = tmp_path / name
    if content == "plain":
        torch.save({"weight": torch.zeros(2)}, file)
    elif isinstance(content, dict):
        with zipfile.ZipFile(file, "w") as archive:
            for place, text in content.items():
                archive.writestr(place, text)
    elif isinstance(content, int):  # an entry whose packed bytes are damaged
        with zipfile.ZipFile(file, "w", content) as archive:
            archive.writestr("m/extra/foveal", json.dumps({"model": "m" * 500}))
        damaged = bytearray(file.read_bytes())
        damaged[52:60] = b"\xff" * 8
        file.write_bytes(damaged)
    elif content is not None:
        file.write_bytes(content)
    assert main(["show", str(file)]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_text_beyond_measure_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("foveal.deploy.onnx.archive.LARGEST", 8)
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("m/extra/foveal", '{"a": "bcd"}')
    assert main(["show", str(tmp_path / "a.pt")]) == 2
    assert "expected a text of at most 8 bytes, got 12" in capsys.readouterr().err


def test_a_card_of_weights(tmp_path, capsys):
    assert main(["show", "bigbird", "--size", "16"]) == 0
    capsys.readouterr()
    from foveal.runtime.packaged import packaged

    assert main(["show", str(packaged("icam-pipes"))]) == 0
    told = capsys.readouterr().out
    assert "  model: icam-31k\n" in told
    assert main(["show", str(packaged("icam-pipes")), "--size", "16"]) == 2
    assert "--size: expected nothing beside a file" in capsys.readouterr().err
