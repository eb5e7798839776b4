"""Peak memory of a call: the most that torch's allocator held at any moment above what it held before.

peak = max_t Σ_{events ≤ t} bytes
"""

import os
from collections.abc import Callable
from typing import Any

import torch


def peak(job: Callable[[], Any], device: str = "cpu") -> int:
    """Bytes above what was there before the call, results included.

    The job runs once beforehand, to fill its caches.
    """
    job()
    return _peak_gpu(job) if device.startswith("cuda") else _peak_cpu(job)


def _peak_gpu(job: Callable[[], Any]) -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    kept = job()
    torch.cuda.synchronize()
    del kept
    return torch.cuda.max_memory_allocated() - before


def _peak_cpu(job: Callable[[], Any]) -> int:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler would announce itself on the terminal
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        kept = job()
    del kept
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most
