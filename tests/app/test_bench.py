"""The bench's table: ratios are read the right way round, bars are checked, and nothing is lost."""

import json
import math
import sys
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from foveal.app.cli import main
from foveal.app.command.bench.crossover import _crossing
from foveal.options import Options, option
from foveal.report.bench import Bench, Row
from foveal.tasks.task import all_tasks


@pytest.fixture
def nap(monkeypatch):
    """Jobs that take their time by a clock of their own, so that a busy machine takes no more."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def job(seconds):
        def passes():
            now[0] += seconds

        return passes

    return job


@pytest.fixture
def bench():
    return Bench("trial", "cpu", threads=1, rounds=3, longest=256)


def test_slower_is_ours_over_the_fastest_of_theirs(bench, nap):
    bench.slower("naps", nap(0.030), {"quick": nap(0.010), "slow": nap(0.050)}, at_most=2)
    (row,) = bench.rows
    assert row.theirs.startswith("quick")
    assert row.ratio == pytest.approx(3)
    assert row.met is False


def test_faster_is_the_fastest_of_theirs_over_ours(bench, nap):
    bench.faster("naps", nap(0.010), {"quick": nap(0.030), "slow": nap(0.050)}, at_least=2)
    (row,) = bench.rows
    assert row.ratio == pytest.approx(3)
    assert row.met is True


def test_smaller_is_theirs_over_ours(bench):
    bench.smaller("bytes", 100, ("theirs", 900), at_least=8)
    bench.smaller("bytes", 100, ("theirs", 700), at_least=8)
    assert [(row.ratio, row.met) for row in bench.rows] == [(9, True), (7, False)]


def test_a_ratio_below_1_is_read_the_other_way_round(bench, nap, tmp_path, capsys):
    bench.faster("naps", nap(0.025), {"theirs": nap(0.010)}, at_least=2)
    bench.smaller("bytes", 500, ("theirs", 100))
    bench.slower("shorter", nap(0.010), {"theirs": nap(0.020)})
    assert [round(row.ratio, 3) for row in bench.rows] == [0.4, 0.2, 0.5]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("2.50 × slower than theirs  (at least 2: NOT MET)")
    assert lines[1].endswith("5.00 × more memory")
    assert lines[2].endswith("0.50 × the time of theirs")
    bench.write(tmp_path)
    (page,) = tmp_path.glob("trial-*.md")
    assert "2.50 × slower than theirs" in page.read_text(encoding="utf-8")


def test_the_files_hold_every_row_and_its_origin(bench, nap, tmp_path, capsys):
    bench.faster("naps", nap(0.001), {"theirs": nap(0.002)})
    bench.add(Row("a fact", "7 MiB", "", None, ""))
    bench.write(tmp_path / "results")
    (page,) = (tmp_path / "results").glob("trial-*.md")
    content = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert content["origin"]["threads"] == "1"
    assert content["seconds"]["naps"]["ours"]["rounds"] == 3
    assert [row["what"] for row in content["rows"]] == ["naps", "a fact"]
    text = page.read_text(encoding="utf-8")
    assert "| naps | " in text
    assert "torch" in text
    assert "a fact: 7 MiB\n" in capsys.readouterr().out


def test_where_two_curves_cross():
    assert _crossing([(256, 0.5), (512, 1.0), (1024, 2.0)]) == "N ≈ 512"
    assert _crossing([(256, 0.5), (1024, 2.0)]) == f"N ≈ {math.sqrt(256 * 1024):.0f}"
    assert _crossing([(256, 1.5), (512, 3.0)]) == "N ≤ 256"
    assert _crossing([(256, 0.5), (512, 0.7)]) == "no length up to 512"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["atention"], "the nearest is 'attention'"),
        (["attention", "--rounds", "0"], "--rounds: expected at least 1, got 0"),
        (["attention", "--threads", "-2"], "the cores there are, got -2"),
        (["attention", "--max-length", "7"], "--max-length: expected from 256 to 1,048,576, got 7"),
        (["attention", "--device", "tpu"], "device: expected auto, or one that this machine has"),
        (["attention", "--rounds", "many"], "invalid int value"),
        (
            ["attention", "--batch", "4"],
            "foveal bench attention: expected no --batch, got 4; leave it out, or bench models or translate",
        ),
        (["crossover", "--batch", "4"], "foveal bench crossover: expected no --batch, got 4"),
        (["resolution", "--batch", "4"], "foveal bench resolution: expected no --batch, got 4"),
        (
            ["attention", "--runtime", "onnxruntime"],
            "expected no --runtime, got onnxruntime; leave it out, or bench models",
        ),
        (["translate", "--runtime", "torch"], "foveal bench translate: expected no --runtime, got torch"),
        (
            ["attention", "--peer", "a.onnx"],
            "expected no --peer, got a.onnx; leave it out, or bench models or resolution",
        ),
        (["attention", "--size", "64"], "expected no --size, got 64; leave it out, or bench models or resolution"),
        (["models", "--tile", "64"], "expected no --tile, got 64; leave it out, or bench resolution"),
        (["crossover", "--beam", "4"], "expected no --beam, got 4; leave it out, or bench translate"),
        (
            ["models", "icam-30k", "--tokens", "9"],
            "foveal bench models: expected no --tokens, got 9; leave it out, or bench translate",
        ),
        (
            ["models", "icam-30k", "--max-length", "512"],
            "foveal bench models: expected no --max-length, got 512; leave it out, or bench attention",
        ),
        (["attention", "icam-30k"], "foveal bench attention: expected no model, got icam-30k"),
        (["resolution", "--device", "cuda"], "--device: expected auto or cpu"),
    ],
)
def test_bad_arguments_get_one_line(arguments, says, capsys):
    assert main(["bench", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


@dataclass(frozen=True)
class DepthOptions(Options):
    depth: int = option(3, "how deep", least=1)


def test_a_task_brings_a_bench_with_options_of_its_own(monkeypatch, capsys, tmp_path):
    seen = []
    kinds = {"bench": DepthOptions}
    task = SimpleNamespace(
        name="dive", does="dives", benches={"deep": "deep_bench"}, options=lambda stage: kinds.get(stage, Options)
    )
    measure = lambda bench: seen.append(bench.options.depth)  # noqa: E731
    monkeypatch.setitem(sys.modules, "deep_bench", SimpleNamespace(measure=measure))
    tasks = [*all_tasks(), task]
    for place in ("foveal.app.command.bench", "foveal.app.command.flags"):
        monkeypatch.setattr(f"{place}.all_tasks", lambda: tasks)
    monkeypatch.setattr("foveal.app.command.flags.find_task", {one.name: one for one in tasks}.__getitem__)
    for flags in ([], ["--depth", "7"]):
        assert main(["bench", "deep", *flags, "--out", str(tmp_path)]) == 0
    assert seen == [3, 7]
    capsys.readouterr()
    assert main(["bench", "deep", "--depth", "0", "--out", str(tmp_path)]) == 2
    assert "--depth: expected an integer, at least 1, got 0" in capsys.readouterr().err
    assert main(["bench", "deep", "--beam", "4", "--out", str(tmp_path)]) == 2
    assert "foveal bench deep: expected no --beam, got 4; leave it out, or bench translate" in capsys.readouterr().err
    assert main(["bench", "attention", "--depth", "4", "--out", str(tmp_path)]) == 2
    assert "expected no --depth, got 4; leave it out, or bench deep" in capsys.readouterr().err
