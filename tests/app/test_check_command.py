"""`foveal check` on code that does not want to be checked: one line and status 2,
never a green light that means nothing.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from foveal.app.cli import main

Refusal = Callable[..., str]

ATTENTION = """
import sys
import torch
from torch import nn
from torch.nn import functional as F

{at_import}

class Attention(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        {in_constructor}
        self.qkv, self.calls = nn.Linear(dim, 3 * dim), 0

    def __deepcopy__(self, memo):
        return self

    def forward(self, x):
        self.calls += 1
        if self.calls > {good_calls}:
            {in_forward}
        return F.scaled_dot_product_attention(*self.qkv(x).chunk(3, -1))

def plain(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)
"""


def attention(at_import: str = "", in_constructor: str = "", in_forward: str = "pass", good_calls: int = 0) -> str:
    return ATTENTION.format(
        at_import=at_import, in_constructor=in_constructor, in_forward=in_forward, good_calls=good_calls
    )


@pytest.fixture
def refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refusal:
    """Check this code under this name, which must fail with one line; that line."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(code: str, name: str = "Attention", *options: str, file: str = "hostile_attention") -> str:
        path = tmp_path / f"{file}.py"
        path.write_text(code, encoding="utf-8")
        before = set(sys.modules)
        try:
            assert main(["check", f"{path}:{name}", *options]) == 2
        finally:
            for word in {file, f"_checked_{file}"} - before:
                sys.modules.pop(word, None)
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        assert err.startswith("foveal: error: ")
        return err

    return run


RAISED = [
    ("sys.exit(0)", "got SystemExit: 0"),
    ("sys.exit()", "got SystemExit\n"),
    ("raise GeneratorExit", "got GeneratorExit\n"),
    ("raise BaseException('no\\nmore')", "got BaseException: no more\n"),
]


@pytest.mark.parametrize(("statement", "got"), RAISED, ids=[statement for statement, _ in RAISED])
def test_code_that_leaves_is_an_error_that_names_how(statement: str, got: str, refusal: Refusal) -> None:
    assert got in refusal(attention(at_import=statement))
    assert got in refusal(attention(in_constructor=statement))
    assert got in refusal(attention(in_forward=statement))
    assert got in refusal(attention(in_forward=statement, good_calls=3))


@pytest.mark.slow
def test_sys_exit_is_no_green_light_for_the_shell(tmp_path: Path) -> None:
    file = tmp_path / "leaves.py"
    file.write_text(attention(in_forward="sys.exit(0)"), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "foveal", "check", f"{file}:Attention"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert result.stderr == f"foveal: error: {file}:Attention: expected code that can be examined, got SystemExit: 0\n"


def test_ctrl_c_still_stops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    for number, code in enumerate(
        [attention(at_import="raise KeyboardInterrupt"), attention(in_forward="raise KeyboardInterrupt")]
    ):
        file = tmp_path / f"stopped_{number}.py"
        file.write_text(code, encoding="utf-8")
        assert main(["check", f"{file}:Attention"]) == 130
        assert capsys.readouterr().err == "foveal: stopped\n"


def test_a_failure_after_good_calls_is_one_line(refusal: Refusal) -> None:
    assert "OSError: gone" in refusal(attention(in_forward="raise OSError('gone')", good_calls=3))
    assert "NoneType" in refusal(attention(in_forward="return None", good_calls=3))
    assert "TypeError: it answers" in refusal(attention(in_forward="return x[:, :2]", good_calls=3))


def test_a_module_that_raises_when_it_is_asked_for_a_name(refusal: Refusal) -> None:
    assert "got ValueError: Attention" in refusal("def __getattr__(name):\n    raise ValueError(name)\n")
    assert "got SystemExit: 0" in refusal("def __getattr__(name):\n    raise SystemExit(0)\n")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("{[]:1}", "TypeError"),
        ("-" * 100_000, ""),
        ("-" * 100_000 + "1", ""),
        ("(" * 100_000, ""),
        ("[" * 2000 + "]" * 2000, ""),
    ],
    ids=["unhashable", "minus", "minus one", "open", "nested"],
)
def test_a_value_that_python_cannot_read_is_one_line(value: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "torch.nn:MultiheadAttention", "--set", f"embed_dim={value}"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "embed_dim" in err
    assert why in err
    assert len(err) < 1000


def test_somebodys_file_does_not_take_the_place_of_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "torch.py"
    file.write_text(attention(), encoding="utf-8")
    assert main(["check", f"{file}:plain"]) == 0
    assert sys.modules["torch"] is torch
    assert sys.modules.pop("_checked_torch").__file__ == str(file)


def test_a_file_that_fails_leaves_nothing_behind(refusal: Refusal, tmp_path: Path) -> None:
    (tmp_path / "half_loaded.py").write_text("raise OSError\n", encoding="utf-8")
    assert main(["check", f"{tmp_path}/half_loaded.py:Attention"]) == 2
    assert "half_loaded" not in sys.modules


def test_what_is_there_is_listed(refusal: Refusal) -> None:
    for name in ("Nothing", "Attention.forward.x", "plain.x"):
        assert f"has no {name!r}; expected one of its classes or functions: Attention, plain" in refusal(
            attention(), name
        )
    assert "it has none" in refusal("NUMBER = 3\n", "NUMBER.x.y")


def test_a_call_that_cannot_be_guessed_names_options_of_the_command_line(refusal: Refusal) -> None:
    line = refusal(attention(in_forward="raise OSError"))
    assert "--layout" in line
    assert "--shape B,N,C" in line
    assert "--set name=value" in line


@pytest.mark.parametrize("shape", ["²,1,20", "1,2", "a,b,c", "-1,7,20", "1,7,99999999999999999999", "", "1.0,2,3"])
def test_a_shape_that_is_none(shape: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "torch.nn:MultiheadAttention", f"--shape={shape}"]) == 2
    assert capsys.readouterr().err == f"foveal: error: --shape: expected three integers B,N,C, got {shape!r}\n"


def test_a_shape_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "foveal.layers.multihead:MultiHead", "--shape", "2, 5,20"]) == 0
    assert "B=2, N=5, C=20" in capsys.readouterr().out


def test_an_async_forward_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "waits.py"
    file.write_text(
        "from torch import nn\nclass Waits(nn.Module):\n    async def forward(self, x):\n        return x\n",
        encoding="utf-8",
    )
    result = subprocess.run(
        [sys.executable, "-m", "foveal", "check", f"{file}:Waits"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "async def" in result.stderr
