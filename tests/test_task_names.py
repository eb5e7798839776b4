"""A stage knows no task: the names of tasks stand in tasks/ only, so that a further task is one folder,
one model and one reader.
"""

import re
from importlib import metadata
from pathlib import Path

import pytest

import foveal
from foveal.app.cli import main
from foveal.tasks import task as tasks
from foveal.tasks.task import find_task, task_names

HOME = Path(foveal.__file__).parent
ROOMS = (
    "app",
    "training",
    "deploy",
    "explain",
    "runtime",
    "models",
    "report",
    "losses",
    "metrics",
    "core",
    "layers",
    "vision",
    "position",
)


def without_papers(source: str) -> str:
    """Titles are the authors' own; lines keep their numbers."""
    return re.sub(r"^Paper[:,].*(\n    .*)*", lambda paper: "\n" * paper[0].count("\n"), source, flags=re.MULTILINE)


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_below_or_beside_tasks_names_one(room):
    assert (HOME / room).is_dir()
    name = re.compile(rf"\b({'|'.join(task_names())})\b", re.IGNORECASE)
    found = [
        f"{file.relative_to(HOME)}:{number}: {line.strip()}"
        for file in sorted((HOME / room).rglob("*.py"))
        for number, line in enumerate(without_papers(file.read_text(encoding="utf-8")).splitlines(), 1)
        if name.search(line)
    ]
    assert not found, "\n".join(found)


def test_every_task_is_found_by_its_folder():
    folders = sorted(file.parent.name for file in (HOME / "tasks").glob("*/task.py"))
    assert set(folders) <= set(task_names())
    for folder in folders:
        assert (HOME / "tasks" / folder / "__init__.py").read_text(encoding="utf-8").count(
            "import"
        ) == 0  # it imports nothing


def test_a_broken_package_costs_its_own_task_only(tmp_path, monkeypatch, capsys):
    (tmp_path / "broken_task.py").write_text("raise RuntimeError('two\\nlines')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    points = [metadata.EntryPoint(name, "broken_task:TASK", tasks.GROUP) for name in ("broken", "classify")]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points if group == tasks.GROUP else [])
    for found in (task_names, find_task):
        found.cache_clear()
    try:
        assert main(["--help"]) == 0
        out, err = capsys.readouterr()
        assert "translate lines as they come" in out
        assert err == (
            "foveal: left out: foveal.tasks broken: expected the package broken_task:TASK to bring it, got "
            "RuntimeError: two lines; mend or remove the package\n"
        )
        assert find_task("classify").families[0] == "icam"  # and not what calls itself so
        assert main(["train", "broken"]) == 2
        assert "foveal: error: foveal.tasks broken: expected the package" in capsys.readouterr().err
    finally:
        for found in (task_names, find_task):
            found.cache_clear()


def test_no_task_imports_another():
    folders = {file.parent.name for file in (HOME / "tasks").glob("*/task.py")}
    assert len(folders) > 1
    for folder in folders:
        others = re.compile(rf"foveal\.tasks\.({'|'.join(folders - {folder})})\b")
        found = [
            str(file) for file in (HOME / "tasks" / folder).rglob("*.py") if others.search(file.read_text("utf-8"))
        ]
        assert not found
