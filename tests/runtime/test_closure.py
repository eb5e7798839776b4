"""What a robot installs: runtime/ loads nothing of foveal's but its floor, and no torch."""

import json
import pkgutil
import subprocess
import sys

import foveal.runtime

FLOOR = {"foveal", "foveal.errors", "foveal.file_names", "foveal.lazy"}
HEAVY = {"torch", "safetensors", "pytorch_lightning", "kornia", "onnx", "yaml", "transformers", "rich", "tokenizers"}
MODULES = sorted(one.name for one in pkgutil.walk_packages(foveal.runtime.__path__, "foveal.runtime."))
PREDICTORS = [
    "foveal.tasks.classify.predict",
    "foveal.tasks.classify.card",
    "foveal.tasks.translate.predict",
    "foveal.tasks.translate.card",
]


def loaded(modules):
    code = (
        "import importlib, json, sys\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, *modules], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_every_module_of_the_runtime_loads_its_floor_only():
    assert len(MODULES) > 15
    found = loaded(MODULES)
    ours = {name for name in found if name.partition(".")[0] == "foveal"}
    assert {name for name in ours if not name.startswith("foveal.runtime")} == FLOOR
    assert not found & (HEAVY - {"tokenizers"})  # which a vocabulary needs


def test_predictors_of_tasks_load_no_torch():
    found = loaded(PREDICTORS)
    rooms = {name.split(".")[1] for name in found if name.startswith("foveal.")}
    floor = {name.partition(".")[2] for name in FLOOR - {"foveal"}}
    assert rooms <= floor | {"runtime", "tasks", "options", "packages"}  # the last two are of the protocol of tasks
    assert not found & HEAVY


def test_tasks_and_their_options_load_without_the_heavy_libraries():
    found = loaded(["foveal.tasks.classify.task", "foveal.tasks.translate.task", "foveal.app.cli"])
    assert not found & (HEAVY | {"numpy", "onnxruntime", "PIL"})
