"""Time side by side: candidates take turns, so that the machine's noise hits all of them alike.

ratio = median(theirs) / median(ours),   spread = (p10, p90)
"""

import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

Job = Callable[[], Any]


@dataclass(frozen=True)
class Timing:
    """Seconds a call: the median, and the 10th and 90th percentile."""

    median: float
    p10: float
    p90: float
    rounds: int


def interleaved(
    jobs: Mapping[str, Job],
    *,
    rounds: int,
    warm_up: int,
    device: str = "cpu",
    clock: Callable[[], float] | None = None,
) -> dict[str, Timing]:
    """Each job once a round, after `warm_up` rounds that do not count.

    clock: of the CPU, time.perf_counter unless given; time.thread_time, for jobs of one thread, leaves out what others
    on the machine do meanwhile.

    Every round has an order of its own: a job finds the caches as the one before has left them, which is worth some
    per cent.
    """
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    names, order = list(jobs), random.Random(0)
    once = _on_gpu if device.startswith("cuda") else partial(_on_cpu, clock or time.perf_counter)
    for number in range(warm_up + rounds):
        order.shuffle(names)
        for name in names:
            seconds = once(jobs[name])
            if number >= warm_up:
                taken[name].append(seconds)
    return {name: _timing(seconds) for name, seconds in taken.items()}


def _on_cpu(clock: Callable[[], float], job: Job) -> float:
    start = clock()
    job()
    return clock() - start


def _on_gpu(job: Job) -> float:
    import torch

    # The device is kept busy for about a millisecond first: the launches queue up behind it, and what is timed is the
    # device.
    torch.cuda._sleep(2_000_000)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    job()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def _timing(seconds: list[float]) -> Timing:
    if len(seconds) == 1:
        return Timing(seconds[0], seconds[0], seconds[0], 1)
    tenths = statistics.quantiles(seconds, n=10, method="inclusive")
    return Timing(statistics.median(seconds), tenths[0], tenths[-1], len(seconds))
