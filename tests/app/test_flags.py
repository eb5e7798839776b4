"""A mistyped number of processes is refused before any is started."""

import pytest

from foveal.app.cli import main


@pytest.mark.parametrize(
    "line",
    [
        "train classify --data pipes:50 --workers 999999",
        "train classify --data pipes:50 --folds all --jobs 999999",
        "train classify --data pipes:50 --devices 999999",
        "ablate icam --data pipes:50 --jobs 999999",
        "data pipes:50 --check --jobs 999999",
        "render pipes --count 2 --out {out} --jobs 999999",
        "train classify --data pipes:50 --jobs 0",
    ],
)
def test_too_many_processes(line, tmp_path, capsys):
    assert (
        main(
            line.format(out=tmp_path / "out").split()
            + ([] if "--out" in line or "data pipes" in line[:10] else ["--out", str(tmp_path / "run")])
        )
        == 2
    )
    assert "--" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
