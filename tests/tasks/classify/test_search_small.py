"""scripts/search_small.py: many recipes in one process, pupils after their teachers."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

SCRIPT = Path(__file__).parents[3] / "scripts/search_small.py"


def searched(tmp_path, search):
    (tmp_path / "search.yaml").write_text(yaml.safe_dump(search, sort_keys=False), encoding="utf-8")
    return subprocess.run(
        [sys.executable, SCRIPT, tmp_path / "search.yaml"], check=False, capture_output=True, text=True
    )


@pytest.mark.slow
def test_a_line_for_each_variant(tmp_path):
    small = {"model": "icam-fast", "size": 56, "config": {"image": 56, "patch": 56}, "batch": 8, "epochs": 1, "ema": 0}
    variants = {"teacher": {"model": "icam-31k"}, "labels": {"augment": "crop"}, "taught": {"taught_by": ["teacher"]}}
    variants["teacher"]["config"] = {"image": 56, "patch": 28}
    done = searched(tmp_path, {"base": {"data": "pipes:40", **small}, "seeds": [0, 1], "variants": variants})
    assert done.returncode == 0, done.stderr
    lines = [
        re.fullmatch(r" *\d+ s  (\w+): [\d.]+ \(seeds (.*); runs .*\), .* weights", line)
        for line in done.stdout.splitlines()
    ]
    assert [line[1] for line in lines] == list(variants)
    assert all(len(line[2].split()) == 2 for line in lines)
    assert lines[1][2] != lines[2][2]  # who is taught learns something else


def test_a_teacher_that_nobody_knows(tmp_path):
    done = searched(tmp_path, {"base": {}, "variants": {"taught": {"taught_by": ["nobody"]}}})
    assert done.returncode == 1
    assert "taught_by of taught: expected names of variants before it, got nobody" in done.stderr
