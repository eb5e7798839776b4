"""The documents say what is true: every Python block runs, what it prints is what the page shows,
and every command works.
"""

import contextlib
import io
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from foveal.data.source import FileImages, Names, Source
from foveal.errors import EXTRAS
from foveal.options import load_yaml
from foveal.report.catalogue import samples
from foveal.tasks.classify.recipe import RECIPES

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page):
    return FENCE.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(kind == "python" for kind, _ in blocks(page))], ids=lambda page: page.name
)
@pytest.mark.slow
def test_every_python_block_runs_and_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace, printed = {}, None
    for kind, text in blocks(page):
        if kind == "bash":  # the images that a page has made by then
            for line in re.findall(r"^foveal render .*", text, re.MULTILINE):
                subprocess.run([sys.executable, "-m", *shlex.split(line)], capture_output=True, timeout=240, check=True)
        elif kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, page.name, "exec"), namespace)
            printed = out.getvalue()
        elif kind == "text" and printed is not None:
            assert printed.rstrip() == text.rstrip()
            printed = None


def commands(page):
    lines = [line for kind, text in blocks(page) if kind == "bash" for line in text.splitlines()]
    return [line.split("  #")[0].strip() for line in lines if line.startswith("foveal ")]


def files(page):
    """The YAML files that a page shows, each with its name in the first line."""
    texts = [text for kind, text in blocks(page) if kind == "yaml"]
    return {text.splitlines()[0].removeprefix("# "): text for text in texts}


def test_the_quick_recipe_is_that_of_teachers_with_fewer_epochs():
    quick = load_yaml(files(ROOT / "docs/inspect.md")["quick.yaml"])
    teacher = load_yaml((RECIPES / "teacher.yaml").read_text(encoding="utf-8"))
    assert quick["epochs"] < teacher["epochs"]
    assert quick == teacher | {"epochs": quick["epochs"]}
    page = " ".join((ROOT / "docs/inspect.md").read_text(encoding="utf-8").split())
    assert f"this is `teacher` with {quick['epochs']} instead of {teacher['epochs']}" in page
    assert f"efficientnet-lite0, {teacher['epochs']} epochs; then" in page


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
@pytest.mark.slow
def test_every_command_of_a_page_works_one_after_the_other(page, tmp_path):
    for name, text in files(page).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for line in commands(page):
        if line.startswith("foveal bench"):
            line += " --rounds 1"
        if line.startswith(("foveal bench attention", "foveal bench crossover")):
            line += " --max-length 1024"
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(line)],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"


def test_the_first_answer_in_the_readme_is_what_the_weights_in_the_package_say(tmp_path):
    bash, text = next(
        (one[1], two[1])
        for one, two in itertools.pairwise(blocks(ROOT / "README.md"))
        if (one[0], two[0]) == ("bash", "text")
    )
    for line in bash.splitlines():
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(line)],
            capture_output=True,
            text=True,
            timeout=240,
            check=True,
            cwd=tmp_path,
        )
    assert done.stdout == text


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


ADDED = re.compile(r"^`((?:src|tests)/[\w/]+\.py)`:\n\n```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory):
    """A copy of the tree, with all that CONTRIBUTING adds; python(…) runs in it."""
    tree = tmp_path_factory.mktemp("tree")
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for folder in ("src", "tests"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    files = ADDED.findall(page)
    assert len(files) == 9
    for path, text in files:
        assert not (tree / path).exists(), path
        (tree / path).write_text(text, encoding="utf-8")

    def python(*arguments):
        # The copy must be found before the installed package.
        environment = {"PYTHONPATH": str(tree / "src"), "PATH": "", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, *map(str, arguments)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=tree, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return python


@pytest.mark.slow
def test_what_a_newcomer_adds_passes_make_lint(newcomer):
    files = [path for path, _ in ADDED.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))]
    newcomer("-m", "ruff", "check", "--no-cache", *files)
    newcomer("-m", "ruff", "format", "--no-cache", "--diff", *files)


@pytest.mark.slow
def test_a_newcomer_adds_a_mask_a_score_and_a_layer_in_one_file_each(newcomer):
    for name in ("checkerboard", "gaussian", "mean"):
        assert "paper" in newcomer("-m", "foveal", "show", name)
    done = newcomer(
        "-m", "pytest", "-p", "no:cacheprovider", "tests/test_every.py", "-k", "checkerboard or gaussian or mean"
    )
    assert re.search(r"\d+ passed", done)
    use = "import foveal, torch\nx = torch.randn(1, 2, 300, 8)\n"
    use += "m = foveal.mask.checkerboard() & foveal.mask.causal\n"
    use += "d = foveal.attend(x, x, x, mask=m, kernel='blocks') - foveal.attend(x, x, x, mask=m, kernel='explicit')\n"
    use += "assert d.abs().max() < 1e-5\n"
    use += "y = foveal.layers.Attention(foveal.score.gaussian)(x[0])\n"
    use += "scores = foveal.score.gaussian(x[0][:, None], x[0][:, None])\n"
    use += "assert (y - foveal.weigh(scores, x[0][:, None])[:, 0]).abs().max() < 1e-6\n"
    use += "layer = foveal.layers.Mean(8)\nassert 'Mean' in dir(foveal.layers)\n"
    use += "with foveal.watch(layer) as seen: layer(x[0], x[0])\n"
    use += "assert (seen['Mean'].weights - 1 / 300).abs().max() < 1e-6\n"
    newcomer("-c", use)


@pytest.mark.slow
def test_a_newcomer_adds_a_model_in_one_file_and_trains_it(newcomer, tmp_path):
    use = "import foveal\nm = foveal.create('pool', classes=5)\nassert m(*m.example(2)).shape == (2, 5)\n"
    use += "from foveal.models.store import describe\nprint(describe(m))"
    assert newcomer("-c", use).startswith("('pool'")
    flags = ["--size", "32", "--batch", "16", "--epochs", "1", "--device", "cpu", "--out", tmp_path / "run"]
    newcomer("-m", "foveal", "train", "classify", "--model", "pool", "--data", "pipes:40", *flags)
    assert '"pool"' in (tmp_path / "run/result.json").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_model_of_somebody_elses_package_is_listed_loaded_and_trained(tmp_path):
    """The same file, outside of the tree: the entry point is all that names it."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (tmp_path / "site/theirs").mkdir(parents=True)
    (tmp_path / "site/theirs/__init__.py").touch()
    (tmp_path / "site/theirs/pool.py").write_text(dict(ADDED.findall(page))["src/foveal/models/pool.py"])
    (tmp_path / "site/theirs-1.0.dist-info").mkdir()
    point = re.search(r"`(pool = \"your_package\.pool\")`", page)[1].replace("your_package", "theirs").replace('"', "")
    (tmp_path / "site/theirs-1.0.dist-info/entry_points.txt").write_text(f"[foveal.models]\n{point}\n")
    (tmp_path / "site/theirs-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(tmp_path / "site")))}

    def python(*arguments):
        command = [sys.executable, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    use = "import foveal, sys\nfrom foveal.models.zoo import families_of\n"
    use += "assert 'pool' in families_of('images to logits')\nassert 'theirs.pool' not in sys.modules\n"
    use += "assert foveal.list_models('pool*') == ['pool']\nassert foveal.load('pool').task == 'classify'\n"
    python("-c", use)
    flags = ["--size", "32", "--batch", "16", "--epochs", "1", "--device", "cpu", "--out", tmp_path / "run"]
    python("-m", "foveal", "train", "classify", "--model", "pool", "--data", "pipes:40", *flags)
    python("-c", "import foveal, sys\nassert foveal.load(sys.argv[1]).card.family == 'pool'", tmp_path / "run")


@pytest.mark.slow
def test_a_newcomer_adds_a_reader_in_one_file(newcomer, tmp_path):
    use = "import numpy as np\nrandom = np.random.default_rng(0)\n"
    use += "parts = {f'{split}_images': random.integers(0, 256, (n, 28, 28), dtype=np.uint8)\n"
    use += "         for split, n in (('train', 12), ('val', 6), ('test', 6))}\n"
    use += "parts |= {name.replace('images', 'labels'): np.arange(len(some))[:, None] % 3\n"
    use += "          for name, some in parts.items()}\n"
    use += f"np.savez({str(tmp_path / 'digits.npz')!r}, **parts)"
    newcomer("-c", use)
    said = newcomer("-m", "foveal", "data", tmp_path / "digits.npz")
    assert "3 classes" in said
    assert "train 12" in said
    flags = [
        "--size",
        "32",
        "--config",
        "{image: 32, patch: 16}",
        "--epochs",
        "1",
        "--batch",
        "6",
        "--out",
        tmp_path / "run",
    ]
    newcomer("-m", "foveal", "train", "classify", "--data", tmp_path / "digits.npz", *flags)


def test_the_list_of_files_in_contributing_is_a_source(tmp_path):
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (text,) = (text for kind, text in FENCE.findall(page) if kind == "python" and text.startswith("files, classes"))
    Image.new("RGB", (5, 3)).save(tmp_path / "b.png")
    names = {"np": np, "FileImages": FileImages, "Names": Names, "Source": Source, "path": tmp_path, "name": "some"}
    exec(text, names)
    source = names["source"]
    assert source.image(1).shape == (3, 5, 3)
    assert source.known().tolist() == [True, True, False]
    assert source.indices("train").tolist() == [0, 1]


def test_the_sample_tensors_of_contributing_are_those_of_the_examples():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| \(([\d, ]+)\) \|", page, re.MULTILINE)
    listed = {name: shape for names, shape in rows for name in re.findall(r"\w+", names)}
    assert listed == {name: ", ".join(map(str, one.shape)) for name, one in samples().items()}


@pytest.mark.slow
def test_a_newcomer_adds_a_command_in_one_file(newcomer):
    assert newcomer("-m", "foveal", "count", "icam-31k").strip() == "31,371"
    assert "  count      count the parameters of a model\n" in newcomer("-m", "foveal", "--help")


def test_the_lines_of_the_toy_task_are_those_of_its_files():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = [text for kind, text in FENCE.findall(page) if kind == "python" and "Gauge" in text]
    files = [(ROOT / f"tests/toy/toy_task/{name}.py").read_text(encoding="utf-8") for name in ("module", "task")]
    assert len(shown) == 2
    for text, file in zip(shown, files, strict=True):
        assert text in file


def test_no_page_has_a_hole():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        assert "@@" not in page.read_text(encoding="utf-8"), page.name


def test_every_extra_that_a_message_names_is_there():
    extras = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    )
    files = [*PAGES, *(ROOT / "src").rglob("*.py")]
    named = {
        (name, file.name)
        for file in files
        for name in re.findall(r"foveal\[([a-z]+)\]", file.read_text(encoding="utf-8"))
    }
    named |= {(name, "errors.py") for name in EXTRAS.values()}
    assert {name for name, _ in named} >= {"torch", "train", "hub"}
    assert not {one for one in named if one[0] not in extras}


def test_percentiles_are_called_percentiles():
    for file in [*(ROOT / "src").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]:
        assert not re.search(r"(th|ieth)[\s\"]+of a hundred", file.read_text(encoding="utf-8")), file
