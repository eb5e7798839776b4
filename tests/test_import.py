"""`import foveal` is fast, and loads nothing that was not asked for."""

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import foveal

ROOT = Path(__file__).parent.parent


def python(code):
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_importing_foveal_loads_no_torch():
    heavy = python(
        "import sys, foveal; print(*sorted({name.partition('.')[0] for name in sys.modules} & {'torch', 'numpy', "
        "'onnxruntime', 'PIL'}))"
    )
    assert heavy == ""
    assert python("import sys, foveal; foveal.FovealError; print('torch' in sys.modules)") == "False"
    assert python("import sys, foveal; foveal.attend; print('torch' in sys.modules)") == "True"


def test_importing_foveal_takes_no_time():
    """Of a core: what else the machine does is not counted."""
    code = "import time; start = time.process_time(); import foveal; print(time.process_time() - start)"
    assert min(float(python(code)) for _ in range(5)) < 0.15


def test_every_public_name_is_there():
    assert dir(foveal) == sorted(foveal.__all__)
    for name in foveal.__all__:
        assert getattr(foveal, name) is not None
    assert foveal.__version__.count(".") == 2


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'foveal' has no attribute 'atend'"):
        foveal.atend  # noqa: B018
    with pytest.raises(ImportError):
        importlib.import_module("foveal.nothing")


def test_names_can_be_imported_from_where_they_are_read():
    from foveal.mask import causal, local

    assert foveal.mask.causal is causal
    assert foveal.mask.local is local


def test_every_room_and_file_is_in_the_contract_of_imports():
    """But for the doors, which lead to the rooms: they are imported by nobody inside."""
    home = Path(foveal.__file__).parent
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    layers = next(one["layers"] for one in tools["importlinter"]["contracts"] if one["type"] == "layers")
    listed = [part.strip() for layer in layers for part in layer.split(":")]
    files = {file.stem for file in home.glob("*.py")} - {"__init__", "__main__", "mask", "score"}
    folders = {file.parent.name for file in home.glob("*/__init__.py")}
    assert sorted(listed) == sorted(f"foveal.{name}" for name in files | folders)
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    assert all(f"`{name}.py`" in page for name in files)
