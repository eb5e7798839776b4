import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import foveal
from foveal.core import score
from foveal.core.score import check_heads
from foveal.errors import FovealError


def test_every_file_is_a_score_of_its_name():
    files = {path.stem for path in Path(score.__file__).parent.glob("*.py")} - {"__init__"}
    assert set(score.names()) == files
    assert {"dot", "additive", "cosine", "location", "location_aware", "content", "context"} <= files
    for name in files:
        function = getattr(foveal.score, name)
        assert inspect.isfunction(function)
        assert function.__module__ == f"foveal.core.score.{name}"
        assert name in dir(score)


def test_a_new_file_is_a_new_score_and_a_score_stays_a_function_whoever_imports_its_file_first(tmp_path):
    shutil.copytree(Path(foveal.__file__).parent, tmp_path / "foveal", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "foveal/core/score/gaussian.py").write_text("def gaussian(q, k):\n    return 'mine'\n")
    code = (
        "from foveal.core.score.cosine import cosine; import foveal; assert foveal.score.cosine is cosine; "
        "assert foveal.score.gaussian(1, 2) == 'mine'; assert 'gaussian' in dir(foveal.score)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(tmp_path)})


def test_an_unknown_name_names_the_nearest():
    with pytest.raises(
        AttributeError, match="no score is called 'aditive'; the nearest is 'additive'; there are additive, "
    ):
        _ = score.aditive
    assert not hasattr(score, "__wrapped__")


@pytest.mark.parametrize(
    ("q", "k", "words"),
    [
        ((2, 3, 5), (2, 3, 7, 11), "q: expected 4 axes"),
        ((2, 3, 5, 11), (2, 7, 11), "k: expected 4 axes"),
        ((2, 3, 5, 11), (1, 3, 7, 11), "k: expected batch 2 as q"),
        ((2, 3, 5, 11), (2, 2, 7, 11), "k: expected a number of heads that divides q's 3"),
        ((2, 3, 5, 11), (2, 3, 7, 13), "k: expected width 11 as q"),
    ],
)
def test_heads_that_do_not_fit(q, k, words):
    with pytest.raises(FovealError, match=words):
        check_heads(torch.zeros(q), torch.zeros(k))
