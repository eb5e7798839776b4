"""What a run does to its process while it goes: freed memory is kept, and given back at the end."""

import ctypes
import platform
import resource

import pytest
import torch

from foveal.training import surroundings
from foveal.training.surroundings import kept_memory


def faults(times=20, numbers=2**22):
    """Page faults of tensors of 16 MB that are made, filled and freed."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        torch.ones(numbers)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc of glibc")
def test_freed_memory_is_kept_while_a_run_goes_and_given_back_after_it():
    with kept_memory():
        faults()
        inside = faults()
    assert inside < 1000
    assert faults() > 20 * inside


@pytest.mark.parametrize("system", ["posix", "nt"])
def test_another_library_of_c_is_left_alone(monkeypatch, system):
    """One without mallopt, or a system where none is asked for: the run goes all the same."""
    asked, went = [], []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: asked.append(name) or object())
    monkeypatch.setattr(surroundings.os, "name", system)
    with kept_memory():
        went.append(True)
    assert (len(asked), went) == (int(system == "posix"), [True])
