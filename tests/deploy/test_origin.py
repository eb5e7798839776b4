import platform

import torch

import foveal
from foveal.deploy.measure.origin import origin


def test_a_figure_knows_where_it_comes_from():
    facts = origin("cpu", threads=3)
    assert facts["foveal"] == foveal.__version__
    assert facts["torch"] == torch.__version__
    assert facts["python"] == platform.python_version()
    assert facts["threads"] == "3"
    assert "cores" in facts["machine"]
    assert all(isinstance(value, str) and value for value in facts.values())


def test_without_git_the_commit_is_unknown(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert origin()["commit"] == "unknown"
