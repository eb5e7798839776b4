"""Layers and positions are found by their files: at run time with no other edit,
and for type checkers by a stub that is current.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from grid import first_is_quick

import foveal
from foveal.lazy import FLOORS, ROOMS, modules, places, public, stubs

HOME = Path(foveal.__file__).parent


def python(code, home=HOME.parent):
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(home)!r})\n{code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_a_file_offers_its_public_classes_or_its_all():
    assert public("class A: ...\nclass _B: ...\ndef f(): ...\nclass C(A): ...") == ["A", "C"]
    assert public("__all__ = ['A']\nclass A: ...\nclass B: ...") == ["A"]
    assert public("__all__: list[str] = []\nclass A: ...") == []
    assert public("x = 1\nx.y = 2\n") == []


def test_names_are_there_before_anything_is_loaded():
    listed = python(
        "import foveal.layers as l; print(*dir(l)); assert 'torch' not in sys.modules; assert l.__all__ == dir(l)"
    )
    names = (
        "Absorbed AdaptiveSpan Additive Attention Cache Content Context Decoder DynamicConvolution Encoder FeedForward "
        "Gated Linformer"
    )
    assert listed.split()[:13] == names.split()
    assert dir(foveal.position) == [
        "BiasTable",
        "Buckets",
        "CausalBuckets",
        "Learned",
        "Learned2d",
        "Polar",
        "Position",
        "Relative",
        "Rotary",
        "Sinusoidal",
        "Sinusoidal2d",
    ]


@pytest.mark.parametrize("room", first_is_quick([*ROOMS, "mask", "score"]))
def test_a_star_imports_what_is_public_and_nothing_else(room):
    code = f"before = {{*globals(), 'before'}}\nfrom foveal.{room} import *\nprint(*sorted({{*globals()}} - before))"
    assert python(code).split() == sorted(getattr(foveal, room).__all__)


@pytest.mark.parametrize("room", first_is_quick(ROOMS))
def test_help_lists_every_class_and_says_what_it_is(room):
    code = f"import pydoc, foveal.{room}; print(pydoc.plain(pydoc.render_doc(foveal.{room})))"
    lines = python(code).splitlines()
    for name in getattr(foveal, room).__all__:
        (place,) = (number for number, line in enumerate(lines) if line.strip().startswith(f"class {name}("))
        assert lines[place + 1].startswith("        "), name  # what it is
        assert lines[place + 1].strip(), name
    assert len(lines) < 200


def test_help_lists_every_mask_and_score():
    page = python(
        "import pydoc, foveal; print(*(pydoc.plain(pydoc.render_doc(one)) for one in (foveal.mask, foveal.score)))"
    )
    assert "    causal\n        Causal mask: nobody looks at what comes later." in page
    assert all(f"\n    {name}\n        " in page for name in [*foveal.mask.__all__[1:], *foveal.score.__all__])


@pytest.mark.parametrize("room", sorted(FLOORS))
def test_a_room_lists_its_modules_and_nothing_that_they_import(room):
    names = getattr(foveal, room).__all__
    assert names == dir(getattr(foveal, room)) == sorted(names)
    assert not [name for name in names if name.startswith("_")]
    imported = {"Any", "annotations", "door_of_modules"} - ({"annotations"} if room == "data" else set())  # a folder
    assert not imported & set(names)
    with pytest.raises(AttributeError, match=f"no module of foveal.{room} is called 'nothing'; "):
        getattr(foveal, room).nothing  # noqa: B018


def test_an_unknown_name_is_answered_with_what_was_meant():
    with pytest.raises(
        AttributeError, match=r"no layer is called 'MultiheadAttention'; the nearest is 'MultiHead'; there are Absorbed"
    ):
        foveal.layers.MultiheadAttention  # noqa: B018
    with pytest.raises(AttributeError, match=r"no position is called 'Zzz'; there are BiasTable"):
        foveal.position.Zzz  # noqa: B018
    assert not hasattr(foveal.layers, "_nothing")
    assert not hasattr(foveal.layers, "nothing")


def test_a_file_is_still_a_module():
    assert (
        python("import foveal.layers.multihead as m; from foveal.layers import multihead; print(multihead is m)")
        == "True"
    )


def test_one_new_file_is_a_new_layer(tmp_path):
    shutil.copytree(
        HOME, tmp_path / "foveal", ignore=shutil.ignore_patterns("__pycache__", "*.onnx", "*.safetensors", "*.jpg")
    )
    (tmp_path / "foveal" / "layers" / "mine.py").write_text("class Mine:\n    answer = 42\n", encoding="utf-8")
    code = (
        "import foveal\n"
        "assert 'Mine' in dir(foveal.layers)\n"
        "from foveal.layers import Mine\n"
        "print(foveal.__file__, Mine.answer)"
    )
    assert python(code, tmp_path) == f"{tmp_path / 'foveal' / '__init__.py'} 42"


def test_the_stubs_are_current():
    for file, text in stubs(HOME).items():
        assert file.read_text(encoding="utf-8") == text, f"{file.relative_to(HOME)} is not current: run make stubs"
    for room in ROOMS:
        assert set(places(HOME / room)) == set(getattr(foveal, room).__all__)
    for room, more in FLOORS.items():
        assert set(modules(HOME / room)) | set(more) == set(getattr(foveal, room).__all__)
    masks = (HOME / "mask.pyi").read_text(encoding="utf-8")
    assert all(f" as {name}\n" in masks for name in foveal.mask.__all__)


@pytest.mark.slow
def test_a_type_checker_sees_real_types(tmp_path):
    file = tmp_path / "use.py"
    file.write_text(
        "from foveal.layers import MultiHead\nimport foveal.position\nreveal_type(MultiHead(4, "
        "2))\nreveal_type(foveal.position.Rotary)\n"
    )
    options = ["--follow-imports=silent", "--no-incremental", "--ignore-missing-imports", f"--cache-dir={tmp_path}"]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(file)],
        capture_output=True,
        text=True,
        check=False,
        env={"MYPYPATH": str(HOME.parent), "PATH": ""},
    )
    assert 'Revealed type is "foveal.layers.multihead.MultiHead"' in run.stdout
    assert "foveal.position.rotary.Rotary" in run.stdout
