"""The Python door as a stranger tries it: each guess works, or is answered by one line that says what does.

Fresh interpreters wherever what was imported before could help.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from grid import first_is_quick

ROOT = Path(__file__).parent.parent
SLOWEST = 0.15  # seconds of a core that `import foveal` may take


def python(code, *arguments, cwd=None):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def answer(guess):
    """What a guess raises, in one line."""
    code = (
        "import foveal\n"
        "try:\n"
        f"    {guess}\n"
        "except (foveal.FovealError, AttributeError, ImportError) as error:\n"
        "    print(error)"
    )
    said = python(code)
    assert said.count("\n") == 1, said
    return said


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Photos, and a run that classifies them."""
    place = tmp_path_factory.mktemp("door")
    code = """
import numpy as np
import foveal
from pathlib import Path
from PIL import Image
random = np.random.default_rng(0)
for number in range(24):
    for name, shift in (("bright", 90), ("dark", 0)):
        folder = Path("photos") / name
        folder.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(shift, shift + 120, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
run = foveal.train("classify", data="photos", size=32, config={"image": 32, "patch": 16}, epochs=2, batch=8, out="run")
assert run.folder == Path("run") and "val_score" in run.figures, run
"""
    python(code, cwd=place)
    return place


@pytest.fixture(scope="module")
def exported(place):
    """m.onnx of the run."""
    python("import foveal; foveal.load('run').export('m.onnx')", cwd=place)
    return place


def test_dir_lists_what_there_is():
    names = python("import foveal; print(*dir(foveal))").split()
    for name in (
        "attend",
        "create",
        "load",
        "list_models",
        "train",
        "watch",
        "check",
        "mask",
        "layers",
        "models",
        "runtime",
    ):
        assert name in names


def test_create_makes_a_model_with_my_number_of_classes():
    assert (
        python(
            "import foveal, torch; m = foveal.create('icam-31k', classes=18); print(m(*m.example()).shape[1])"
        ).strip()
        == "18"
    )


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one():
    assert "the nearest is 'icam-31k'" in answer("foveal.create('icam31k')")
    assert "the nearest is 'classes'" in answer("foveal.create('icam-31k', num_classes=18)")


def test_pretrained_is_answered_with_what_loads_weights():
    said = answer("foveal.create('icam-31k', pretrained=True)")
    assert 'foveal.load("icam-fast-pipes")' in said.replace("'", '"')
    assert "stem_stride" not in said.split(";")[0]


def test_a_name_that_is_like_nothing_gets_no_nonsense_hint():
    assert "nearest" not in answer("foveal.create('icam-31k', quux=1)")


def test_load_of_packaged_weights_is_one_object():
    code = (
        "import foveal\n"
        "m = foveal.load('icam-fast-pipes')\n"
        "assert isinstance(m, foveal.Model)\n"
        "print(m.task, len(m.classes), m.card.model)"
    )
    assert python(code).split() == ["classify", "15", "icam-fast"]


@pytest.mark.slow
def test_load_of_a_translation_asks_the_file_what_it_is(tmp_path):
    code = (
        "import foveal\n"
        "foveal.train('translate', data='grammar:300', epochs=1, out='en-de')\n"
        "m = foveal.load('en-de')\n"
        "assert m.task == 'translate'\n"
        "print(repr(m.translate('the dog sees a cat')))"
    )
    assert python(code, cwd=tmp_path).startswith("'")


@pytest.mark.slow
def test_load_of_an_exported_file_is_a_model_and_needs_no_torch(exported):
    code = "import sys; sys.modules['torch'] = None\nimport foveal\nm = foveal.load('m.onnx')\n"
    code += "found = list(m.predict('photos/bright/1.png'))\nprint(m.task, found[0].found)"
    assert python(code, cwd=exported).startswith("classify (")


def test_there_is_a_list_of_models():
    code = "import foveal\nprint(*foveal.list_models('icam*'))\nprint(*foveal.list_models(task='translate'))"
    icam, translate = python(code).splitlines()
    assert {"icam-30k", "icam-31k", "icam-fast", "icam-fast-pipes"} <= set(icam.split())
    assert "transformer-base" in translate.split()
    assert not any(name.startswith("icam") for name in translate.split())


@pytest.mark.parametrize(
    "room", ["data", "explain", "layers", "losses", "metrics", "models", "position", "runtime", "tasks", "vision"]
)
def test_a_room_is_there_in_a_fresh_process(room):
    assert python(f"import foveal; print(foveal.{room}.__name__)").strip() == f"foveal.{room}"


def test_signatures_say_what_to_pass():
    code = (
        "import foveal, inspect\n"
        "for one in (foveal.layers.MultiHead, foveal.attend, foveal.load, foveal.train): print(inspect.signature(one))"
    )
    layer, attend, load, train = python(code).splitlines()
    assert "width: int" in layer
    assert "heads: int" in layer
    assert "mask" in attend
    assert "device" in load
    assert "recipe" in train


def test_the_name_that_torch_has_is_answered_with_ours():
    assert "the nearest is 'MultiHead'" in answer("foveal.layers.MultiheadAttention")


@pytest.mark.parametrize(
    ("room", "some"),
    first_is_quick([("layers", "MultiHead"), ("position", "Rotary"), ("mask", "causal"), ("score", "dot")]),
)
def test_import_star_brings_what_the_room_has_and_nothing_else(room, some):
    names = python(
        f"from foveal.{room} import *\nprint(*(name for name in dir() if not name.startswith('__')))"
    ).split()
    assert some in names
    assert not {"Any", "importlib", "unknown", "TYPE_CHECKING"} & set(names)


@pytest.mark.slow
def test_a_model_is_saved_and_loaded_by_the_hubs_conventions(place, tmp_path):
    code = (
        "import sys, foveal\nm = foveal.load('run')\nm.save_pretrained(sys.argv[1])\nagain = foveal.load(sys.argv[1])\n"
    )
    code += "a, b = (next(iter(one.predict('photos/bright/1.png'))) for one in (m, again))\n"
    code += "assert (a.probability == b.probability).all()"
    python(code, tmp_path / "hub", cwd=place)
    assert {file.name for file in (tmp_path / "hub").iterdir()} == {"model.safetensors", "config.json", "README.md"}
    assert "push_to_hub" in python("import foveal; print(*dir(foveal.Model))").split()


def test_a_verb_that_is_a_models_is_answered_with_where_it_is():
    wanted = {
        "save": "save_pretrained",
        "from_pretrained": "foveal.load",
        "predict": "foveal.load",
        "evaluate": "foveal.load",
        "export": "foveal.load",
        "create_model": "create",
        "lod": "load",
    }
    code = (
        "import foveal, sys\n"
        "for name in sys.argv[1:]:\n"
        "    try: getattr(foveal, name)\n"
        "    except AttributeError as error: print(error)"
    )
    lines = python(code, *wanted).splitlines()
    assert [line for says, line in zip(wanted.values(), lines, strict=True) if says not in line] == []


@pytest.mark.slow
def test_train_evaluate_predict_and_export_work_from_python(place, tmp_path):
    code = "import sys, foveal\nm = foveal.load('run')\nprint(sorted(m.evaluate(split='test').figures)[0])\n"
    code += "print(sum(1 for _ in m.predict('photos/')))\nprint(bool(m.export(sys.argv[1]).proof))"
    first, count, proof = python(code, tmp_path / "again.onnx", cwd=place).splitlines()
    assert first
    assert (count, proof) == ("48", "True")


def test_predict_takes_a_list_a_pattern_an_array_and_an_image(place):
    code = "import foveal, numpy as np\nfrom PIL import Image\nm = foveal.load('run')\nphoto = 'photos/bright/1.png'\n"
    code += "image = Image.open(photo)\n"
    code += "many = [photo], photo, 'photos/bright/1.pn?', np.asarray(image), image, [np.asarray(image)]\n"
    code += "found = [list(m.predict(one)) for one in many]\nassert [len(one) for one in found] == [1] * 6, found\n"
    code += "assert len({one[0].found for one in found}) == 1\n"
    code += "assert all(abs(one[0].probability - found[0][0].probability).max() < 1e-6 for one in found)"
    python(code, cwd=place)


@pytest.mark.slow
def test_the_session_of_an_exported_file_is_at_hand(exported):
    code = "import sys; sys.modules['torch'] = None\nimport foveal\nm = foveal.load('m.onnx')\n"
    code += "print(type(m.exported.session).__name__, m.exported.session.get_inputs()[0].name)"
    assert python(code, cwd=exported).split() == ["InferenceSession", "frames"]
    assert "foveal.load" in answer("foveal.runtime.Session")


@pytest.mark.slow
def test_a_type_checker_sees_real_types(tmp_path):
    script = tmp_path / "user.py"
    script.write_text(
        "import foveal\n"
        "reveal_type(foveal.attend)\nreveal_type(foveal.load('x'))\nreveal_type(foveal.train('classify'))\n"
        "reveal_type(foveal.mask.causal)\nreveal_type(foveal.layers.MultiHead(8, heads=2))\n"
        "reveal_type(foveal.create('icam-31k'))\nreveal_type(foveal.position.Rotary())\n"
        "reveal_type(foveal.score.dot)\nreveal_type(foveal.load('x').evaluate().figures)\n",
        encoding="utf-8",
    )
    environment = os.environ | {"MYPYPATH": str(ROOT / "src")}
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--cache-dir",
        str(tmp_path / "cache"),
        "--no-color-output",
        str(script),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=3000, check=False
    )
    assert done.returncode == 0, done.stdout
    revealed = [
        line.partition("Revealed type is ")[2].strip('"') for line in done.stdout.splitlines() if "Revealed" in line
    ]
    assert len(revealed) == 9
    assert not [line for line in revealed if line == "Any" or "-> Any" in line]
    assert "foveal.tasks.model.Model" in revealed[1]
    assert "foveal.tasks.train.Run" in revealed[2]
    assert "MultiHead" in revealed[4]


@pytest.mark.parametrize(
    ("module", "names"),
    [("foveal", ["attend(", "load(", "train("]), ("foveal.layers", ["class MultiHead", "class Performer"])],
)
def test_help_lists_the_functions(module, names):
    text = python(f"import pydoc, {module}; print(pydoc.render_doc({module}, renderer=pydoc.plaintext))")
    for name in names:
        assert name in text


def test_a_mask_draws_itself_in_a_notebook():
    code = (
        "import foveal\n"
        "m = foveal.mask.causal & foveal.mask.local(3)\n"
        "assert m._repr_png_().startswith(b'\\x89PNG')\n"
        "print(repr(m))"
    )
    assert "causal" in python(code)


def test_an_explanation_draws_itself_in_a_notebook_and_prints_a_line():
    code = (
        "import foveal, numpy as np\n"
        "shown = foveal.load('icam-fast-pipes').explain(np.zeros((97, 101, 3), np.uint8))\n"
        "assert shown._repr_png_().startswith(b'\\x89PNG')\n"
        "assert shown._repr_html_() is None\n"
        "print(repr(shown))"
    )
    said = python(code)
    assert said.startswith("image 0: ")
    assert len(said) < 300


@pytest.mark.parametrize(("arguments", "status"), [(["--version"], 0), (["--help"], 0), ([], 2)])
def test_python_m_foveal(arguments, status):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "foveal", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == status
    assert "Traceback" not in done.stderr


def test_importing_it_is_quick_and_brings_no_torch():
    code = "import sys, time\nbefore = time.process_time()\nimport foveal\nprint(time.process_time() - before)\n"
    code += "assert not {'torch', 'numpy', 'onnxruntime', 'PIL'} & set(sys.modules)"
    assert min(float(python(code)) for _ in range(3)) < SLOWEST
