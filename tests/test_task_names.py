"""A stage knows no task: the names of tasks stand in tasks/ only, so that a further task is one folder,
one model and one reader.
"""

import re
from pathlib import Path

import pytest

import foveal
from foveal.tasks.task import task_names

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
    return re.sub(r"^Paper:.*(\n    .*)*", lambda paper: "\n" * paper[0].count("\n"), source, flags=re.MULTILINE)


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
