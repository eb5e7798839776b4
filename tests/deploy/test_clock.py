import time

import pytest

from foveal.deploy.measure.clock import interleaved


def test_jobs_take_turns_and_the_warm_up_does_not_count():
    order = []
    taken = interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=3, warm_up=2)
    rounds = [order[start : start + 2] for start in range(0, 10, 2)]
    assert all(sorted(one) == ["a", "b"] for one in rounds)
    assert ["a", "b"] in rounds
    assert ["b", "a"] in rounds
    assert taken["a"].rounds == taken["b"].rounds == 3


def test_the_median_and_the_spread_are_those_of_the_job(monkeypatch):
    now, naps = [0.0], iter([0.0, 0.010, 0.020, 0.030])
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def nap():
        now[0] += next(naps)

    timing = interleaved({"nap": nap}, rounds=3, warm_up=1)["nap"]
    assert timing.median == pytest.approx(0.020)
    assert timing.p10 < timing.median < timing.p90


def test_one_round_has_no_spread():
    timing = interleaved({"a": lambda: None}, rounds=1, warm_up=0)["a"]
    assert timing.median == timing.p10 == timing.p90


def test_another_clock():
    """One that stands still while jobs run: nothing is taken."""
    taken = interleaved({"a": lambda: time.sleep(0.001)}, rounds=3, warm_up=0, clock=lambda: 5.0)
    assert taken["a"].median == 0
