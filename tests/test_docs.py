"""The documents say what is true: every Python block runs, what it prints is what the page shows, and every command works."""

import contextlib
import io
import itertools
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page):
    return FENCE.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [page for page in PAGES if any(kind == "python" for kind, _ in blocks(page))], ids=lambda page: page.name)
def test_every_python_block_runs_and_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace, printed = {}, None
    for kind, text in blocks(page):
        if kind == "python":
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


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_every_command_of_a_page_works_one_after_the_other(page, tmp_path):
    for line in commands(page):
        if line.startswith("foveal bench"):
            line += " --rounds 1"
        if line.startswith(("foveal bench attention", "foveal bench crossover")):
            line += " --longest 1024"
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(line)], capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"


def test_the_first_answer_in_the_readme_is_what_the_weights_in_the_package_say(tmp_path):
    bash, text = next(
        (one[1], two[1]) for one, two in itertools.pairwise(blocks(ROOT / "README.md")) if (one[0], two[0]) == ("bash", "text")
    )
    for line in bash.splitlines():
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(line)], capture_output=True, text=True, timeout=240, check=True, cwd=tmp_path
        )
    assert done.stdout == text


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_a_newcomer_adds_a_mask_and_a_score_in_one_file_each_and_changes_nothing_else(tmp_path):
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    files = re.findall(r"^`((?:src|tests)/[\w/]+\.py)`:\n\n```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(files) == 4
    for folder in ("src", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for path, text in files:
        assert not (tmp_path / path).exists()
        (tmp_path / path).write_text(text, encoding="utf-8")
    # The copy must be found before the installed package.
    environment = {"PYTHONPATH": str(tmp_path / "src"), "PATH": "", "OMP_NUM_THREADS": "1"}
    for name in ("checkerboard", "gaussian"):
        shown = subprocess.run(
            [sys.executable, "-m", "foveal", "show", name], capture_output=True, text=True, env=environment, timeout=120, check=False
        )
        assert shown.returncode == 0, shown.stderr
        assert "Paper" in shown.stdout or "paper" in shown.stdout
    tests = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/test_every.py", "-k", "checkerboard or gaussian"]
    done = subprocess.run(tests, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d+ passed", done.stdout)
    use = "import foveal, torch\nx = torch.randn(1, 2, 300, 8)\n"
    use += "m = foveal.mask.checkerboard() & foveal.mask.causal\n"
    use += "d = foveal.attend(x, x, x, mask=m, kernel='blocks') - foveal.attend(x, x, x, mask=m, kernel='explicit')\n"
    use += "assert d.abs().max() < 1e-5\n"
    use += "y = foveal.layers.Attention(foveal.score.gaussian)(x[0])\n"
    use += "assert (y - foveal.weigh(foveal.score.gaussian(x[0][:, None], x[0][:, None]), x[0][:, None])[:, 0]).abs().max() < 1e-6\n"
    done = subprocess.run([sys.executable, "-c", use], capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_no_page_has_a_hole():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        assert "@@" not in page.read_text(encoding="utf-8"), page.name
