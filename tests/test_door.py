"""The Python door as a stranger tries it: each guess works, or is answered by one line that says what does.

Fresh interpreters wherever what was imported before could help.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from grid import first_is_quick

ROOT = Path(__file__).parent.parent
ROOMS = ["core", "data", "deploy", "explain", "losses", "metrics", "models", "report", "runtime", "tasks", "training"]
BARE = (  # as after pip install foveal
    "import sys\nfrom foveal.errors import EXTRAS\nsys.modules.update(dict.fromkeys(EXTRAS))\n"
    "assert 'torch' in EXTRAS\nimport foveal\n"
)
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


def test_a_room_is_there_in_a_fresh_process():
    code = (
        "import sys, foveal\n"
        "for room in sys.argv[1:]:\n"
        "    assert room in dir(foveal), room\n"
        "    found = getattr(foveal, room)\n"
        "    assert found.__name__ == 'foveal.' + room\n"
        "    assert found.__all__ == dir(found) and len(dir(found)) > 2, room\n"
        "assert not {'torch', 'numpy', 'onnxruntime', 'PIL'} & set(sys.modules)"
    )
    python(code, *ROOMS, "layers", "mask", "position", "score", "vision")


@pytest.mark.parametrize(
    "name",
    first_is_quick(
        [
            "models.zoo",
            "layers.multihead",
            "runtime.card",
            "tasks.load",
            "data.read",
            "metrics.bleu",
            "losses.hints",
            "explain.heads",
            "core.attend",
            "deploy.prune",
            "training.harness",
        ]
    ),
)
def test_a_module_of_a_room_is_there_whatever_was_imported_before(name):
    room, _, module = name.partition(".")
    code = (
        f"import foveal\nassert {module!r} in dir(foveal.{room}) or {room!r} == 'layers'\nprint(foveal.{name}.__name__)"
    )
    assert python(code).strip() == f"foveal.{name}"
    assert "there are " in answer(f"foveal.{room}.nothing_like_it")


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
    first_is_quick(
        [
            ("runtime", "Session"),
            ("layers", "MultiHead"),
            ("position", "Rotary"),
            ("mask", "causal"),
            ("score", "dot"),
            ("core", "attend"),
            ("models", "zoo"),
        ]
    ),
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
        "from_pretrained": "foveal.load",
        "translate": "foveal.load",
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


def test_a_network_is_saved_without_a_card_of_ones_own(tmp_path):
    code = (
        "import foveal\n"
        "network = foveal.create('icam-31k', classes=3, image=28, patch=14)\n"
        "foveal.save(network, 'mine.safetensors', classes=['a', 'b', 'c'])\n"
        "foveal.save(network, 'folder', classes=('a', 'b', 'c'), note='mine')\n"
        "m = foveal.Model.from_pretrained('folder')\n"
        "n = foveal.load('mine.safetensors')\n"
        "assert (m.classes, m.card.note, m.random, n.card.note) == (('a', 'b', 'c'), 'mine', False, ''), m.card\n"
        "import numpy as np\n"
        "black = np.zeros((28, 28, 3), np.uint8)\n"
        "(one,), (two,) = foveal.predict('mine.safetensors', black), foveal.predict(m, black)\n"
        "assert abs(one.probability - two.probability).max() < 1e-6 and isinstance(one, foveal.Prediction)\n"
        "def no(*given, **facts):\n"
        "    try: foveal.save(*given, **facts)\n"
        "    except foveal.FovealError as error: print(error)\n"
        "no(network, 'x.safetensors', classes=['a'])\n"
        "no(network, 'x.safetensors', clases=['a'])\n"
        "no(network, 'x.safetensors', classes='abc')\n"
        "no(network, 'x.pt')\n"
        "no(m, 'x')\n"
        "no(network[0] if hasattr(network, '__getitem__') else next(network.children()), 'x')\n"
        "print(foveal.load(foveal.save(foveal.create('icam-31k', classes=2), 'two')).card.model)\n"
        "print(foveal.load(foveal.save(foveal.create('transformer-tiny'), 'three')).task)"
    )
    lines = python(code, cwd=tmp_path).splitlines()
    assert lines == [
        "x.safetensors: expected 3 names of classes, got 1",
        lines[1],
        "classes: expected several values, such as a tuple, got 'abc'",
        "to save: expected a folder, or the name of a .safetensors file, got x.pt",
        "to save: expected a network of torch, got a Model; call its save_pretrained",
        lines[5],
        "icam-31k",
        "translate",
    ]
    assert "no field of the card of a model that classifies is called 'clases'; the nearest is 'classes'" in lines[1]
    assert lines[5].startswith("the model: expected one of foveal.create, got ")
    assert not list(tmp_path.glob("x*"))


@pytest.mark.slow
def test_the_stages_are_functions_of_what_load_opens(place, tmp_path):
    code = (
        "import sys, foveal\n"
        "assert len(list(foveal.predict('run', 'photos/'))) == 48\n"
        "assert foveal.evaluate('run', data='photos', split='test').figures\n"
        "shipped = foveal.export(foveal.load('run'), sys.argv[1])\n"
        "print(repr(shipped), len(list(foveal.predict(shipped.path, ['photos/bright/1.png']))))"
    )
    said = python(code, tmp_path / "m.onnx", cwd=place).split()
    assert said == [f"ExportedClassifier('{tmp_path / 'm.onnx'}')", "1"]


@pytest.mark.parametrize(
    "guess",
    [
        "foveal.create('icam-31k')",
        "foveal.train('classify', data='photos')",
        "foveal.mask.causal",
        "foveal.score.dot",
        "foveal.layers.MultiHead",
        "foveal.models.zoo",
        "foveal.attend",
        "foveal.load('RUN')",
        "foveal.save(None, 'x')",
    ],
)
def test_without_torch_a_line_says_what_to_install(guess, tmp_path):
    (tmp_path / "RUN").mkdir()
    (tmp_path / "RUN/model.safetensors").touch()
    code = BARE + f"try:\n    {guess}\nexcept foveal.FovealError as error:\n    print(error)"
    said = python(code, cwd=tmp_path)
    assert re.fullmatch(r"this needs (torch|safetensors), which is not installed; pip install foveal\[torch\]\n", said)


def test_without_torch_an_import_that_fails_is_an_import_error():
    code = BARE + "try:\n    from foveal import attend\nexcept ImportError as error:\n    print(error.name, error)"
    assert python(code).startswith("torch this needs torch, which is not installed; pip install foveal[torch]")


def test_without_torch_names_are_listed_and_an_exported_model_answers():
    code = BARE + (
        "assert 'causal' in dir(foveal.mask) and 'Mask' in foveal.mask.__all__ and 'dot' in dir(foveal.score)\n"
        "assert 'zoo' in dir(foveal.models) and 'MultiHead' in dir(foveal.layers)\n"
        "import numpy as np\n"
        "(found,) = foveal.predict('icam-fast-pipes', np.zeros((97, 101, 3), np.uint8))\n"
        "print(type(found).__name__, isinstance(found, foveal.Prediction), foveal.runtime.Session.__name__)"
    )
    assert python(code).split() == ["Prediction", "True", "Session"]


def test_without_torch_show_says_what_a_preset_needs():
    code = BARE + "from foveal.app.cli import main\nsys.stderr = sys.stdout\nassert main(['show', 'icam-31k']) == 2"
    said = python(code)
    assert said == "foveal: error: this needs torch, which is not installed; pip install foveal[torch]\n"


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
    code = "import sys; sys.modules['torch'] = None\nimport numpy as np\nfrom foveal.runtime import Session\n"
    code += "found = Session('m.onnx')({'frames': np.zeros((2, 32, 32, 3), np.uint8)})\n"
    code += (
        "assert Session('m.onnx')({'frames': np.zeros((2, 32, 32, 3), np.uint8)}, ['logits']).keys() == {'logits'}\n"
    )
    code += "print(*found['probability'].shape)"
    assert python(code, cwd=exported).split() == ["2", "2"]


@pytest.mark.slow
def test_a_type_checker_sees_real_types(tmp_path):
    script = tmp_path / "user.py"
    script.write_text(
        "import foveal\n"
        "reveal_type(foveal.attend)\nreveal_type(foveal.load('x'))\nreveal_type(foveal.train('classify'))\n"
        "reveal_type(foveal.mask.causal)\nreveal_type(foveal.layers.MultiHead(8, heads=2))\n"
        "reveal_type(foveal.create('icam-31k'))\nreveal_type(foveal.position.Rotary())\n"
        "reveal_type(foveal.score.dot)\nreveal_type(foveal.load('x').evaluate().figures)\n"
        "reveal_type(foveal.load('x').translate('a'))\nreveal_type(foveal.load('x').translate(['a']))\n"
        "for one in foveal.predict('x', 'photos/'):\n"
        "    print(one.file, one.error)\n"
        "    if isinstance(one, foveal.Prediction):\n"
        "        reveal_type(one.found)\n"
        "reveal_type(foveal.models.zoo.presets())\nreveal_type(foveal.runtime.Session('x').proof)\n",
        encoding="utf-8",
    )
    done = checked(script, tmp_path)
    assert done.returncode == 0, done.stdout
    revealed = [
        line.partition("Revealed type is ")[2].strip('"') for line in done.stdout.splitlines() if "Revealed" in line
    ]
    assert len(revealed) == 14
    assert not [line for line in revealed if line == "Any" or "-> Any" in line]
    assert "foveal.tasks.model.Model" in revealed[1]
    assert "foveal.tasks.train.Run" in revealed[2]
    assert "MultiHead" in revealed[4]
    assert revealed[9:12] == ["str", "list[str]", "tuple[str, ...]"]


WRONG = {  # what a type checker says of a mistake
    "foveal.laod('x')": 'Module has no attribute "laod"',
    "foveal.mask.cuasal": 'Module has no attribute "cuasal"',
    "foveal.layers.MultiheadAttention(8, 2)": 'Module has no attribute "MultiheadAttention"',
    "foveal.models.zooo": 'Module has no attribute "zooo"',
    "foveal.runtime.Any": 'Module has no attribute "Any"',
    "foveal.load('x').translate(3)": 'No overload variant of "translate" of "Model" matches argument type "int"',
    "foveal.load('x').translate('a').append('b')": '"str" has no attribute "append"',
    "next(foveal.load('x').predict('y')).fuond": '"Result" has no attribute "fuond"',
    "foveal.load(3)": 'Argument 1 to "load" has incompatible type "int"',
}


@pytest.mark.slow
def test_a_type_checker_sees_mistakes(tmp_path):
    script = tmp_path / "user.py"
    script.write_text("import foveal\n" + "\n".join(WRONG) + "\n", encoding="utf-8")
    said = checked(script, tmp_path).stdout
    for number, message in enumerate(WRONG.values(), 2):
        assert re.search(rf"user\.py:{number}: error: {re.escape(message)}", said), said


def checked(script, tmp_path):
    """What mypy says of a user's script."""
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
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=3000, check=False
    )


@pytest.mark.parametrize(
    ("module", "names"),
    [("foveal", ["attend(", "load(", "train("]), ("foveal.layers", ["class MultiHead", "class Performer"])],
)
def test_help_is_a_page_that_lists_the_functions(module, names):
    text = python(f"import pydoc, {module}; print(pydoc.render_doc({module}, renderer=pydoc.plaintext))")
    for name in names:
        assert name in text
    assert text.count("\n") < 600


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
