"""Mistake 1: dropout active in evaluation.

    y(seed 0) = y(seed 1) = y(nothing dropped),   all in evaluation

Every rate that a module holds is turned up first: a dropout of 0 that is wrongly applied does no harm, and hides.
"""

from torch import nn

from foveal.explain.diagnosis.finding import Finding
from foveal.explain.diagnosis.noise import Noise, Quiet
from foveal.explain.diagnosis.probe import Probe
from foveal.explain.diagnosis.subject import REFUSALS, Subject

RATE = 0.5  # dropout of a module is turned up to this, so that a rate of 0 hides nothing


def look(probe: Probe) -> Finding:
    subject = _turned_up(probe.subject)
    x = probe.subject.sample()
    with Noise() as noise:
        first = subject.run(x, seed=0)
    second, plain = subject.run(x, seed=1), subject.run(x)
    with Quiet():
        silent = subject.run(x)
    between, dropped = probe.change(first, second), probe.change(plain, silent)
    numbers = {"measured": max(between, dropped), "expected": 0.0}
    if between or dropped:
        probe.silence()
        rate = (
            f"a share of {max(noise.dropped):.2g} is dropped in evaluation"
            if noise.dropped
            else "something is random in evaluation"
        )
        effect = f"two runs differ by {between:.3g}" if between else f"the same every time, and off by {dropped:.3g}"
        return Finding(
            "dropout", "mistake", f"{rate}: {effect}; drop only if self.training, or use nn.Dropout", numbers
        )
    if subject.module is None:
        return Finding(
            "dropout", "not applicable", "a function drops what its caller says; without that, two calls agree", numbers
        )
    if not _random_in_training(subject):
        return Finding("dropout", "not applicable", "it has no dropout: two passes agree in training, too", numbers)
    return Finding("dropout", "ok", "two evaluations agree, and drop nothing", numbers)


def _turned_up(subject: Subject) -> Subject:
    """A copy with every rate of dropout that can be found set to RATE; the subject itself where that breaks it."""
    if subject.module is None:
        return subject
    copied = subject.copied()
    assert copied.module is not None
    for part in copied.module.modules():
        if isinstance(part, nn.modules.dropout._DropoutNd):
            part.p = RATE
        for name, value in list(vars(part).items()):
            if "drop" in name.lower() and isinstance(value, int | float) and not isinstance(value, bool):
                setattr(part, name, RATE)
    try:
        copied.run(copied.sample())
    except REFUSALS:
        return subject
    return copied


def _random_in_training(subject: Subject) -> bool:
    copied = subject.copied()
    assert copied.module is not None
    copied.module.train()
    x = copied.sample()
    return bool((copied.run(x, seed=0) != copied.run(x, seed=1)).any())
