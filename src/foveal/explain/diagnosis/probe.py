"""What is measured on a subject, once, for all findings: who moves whom, and what its insides look like."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from foveal.explain.diagnosis.anatomy import Anatomy, dissect
from foveal.explain.diagnosis.masking import Meaning, Reading, mask_arguments, read
from foveal.explain.diagnosis.rebuild import Rebuilt, rebuild
from foveal.explain.diagnosis.subject import Subject, largest_change


class Probe:
    """Measurements, made when they are asked for."""

    def __init__(self, subject: Subject, true_means: Meaning | None = None) -> None:
        self.subject, self.true_means = subject, true_means

    def silence(self) -> None:
        """From here on without the dropout that is wrongly applied, so that the other mistakes can be seen."""
        self.subject = replace(self.subject, quiet=True)

    @cached_property
    def x(self) -> Tensor:
        return self.subject.sample()

    @cached_property
    def y(self) -> Tensor:
        return self.subject.run(self.x)

    def change(self, before: Tensor, after: Tensor) -> float:
        return largest_change(before, after, self.subject.tolerance)

    @cached_property
    def reach(self) -> Tensor:
        """(N, N): how far output i moves when token j is replaced."""
        return self.reach_with({})

    def reach_with(self, extra: Mapping[str, Any]) -> Tensor:
        """The same with further arguments."""
        before, other = self.subject.run(self.x, extra), self.subject.sample(1)
        tokens = self.x.shape[1]
        reach = torch.zeros(tokens, tokens, dtype=torch.float64)
        for j in range(tokens):
            x = self.x.clone()
            x[:, j] = other[:, j]
            after = self.subject.run(x, extra)
            for i in range(tokens):
                reach[i, j] = self.change(before[:, i], after[:, i])
        return reach

    @cached_property
    def pattern(self) -> str:
        """Who sees whom without a mask: all, causal, anti-causal, self only, or some."""
        return pattern_of(self.reach)

    @cached_property
    def leak(self) -> float:
        """How far the other samples of a batch move when one is replaced."""
        x = self.x.clone()
        x[0] = self.subject.sample(1)[0]
        return self.change(self.y[1:], self.subject.run(x)[1:])

    @cached_property
    def disorder(self) -> float:
        """How far f(P x) is from P f(x) for a permutation P of the tokens."""
        order = torch.roll(torch.arange(self.x.shape[1]).flip(0), 2)
        return self.change(self.y[:, order], self.subject.run(self.x[:, order]))

    @cached_property
    def readings(self) -> list[Reading]:
        return [read(self.subject, argument) for argument in mask_arguments(self.subject)]

    @cached_property
    def anatomy(self) -> Anatomy:
        return dissect(self.subject, self.x)

    @cached_property
    def rebuilt(self) -> Rebuilt | str:
        seen = (self.reach > 0) | torch.eye(len(self.reach), dtype=torch.bool)
        return rebuild(self.subject, self.anatomy, seen.to(self.x.device))


def pattern_of(reach: Tensor) -> str:
    """The name of a matrix of who moves whom; the diagonal says nothing, since a query moves its own output."""
    moves = reach > 0
    before, after = torch.tril(moves, -1), torch.triu(moves, 1)
    all_before, all_after = torch.tril(torch.ones_like(moves), -1), torch.triu(torch.ones_like(moves), 1)
    if not (before.any() or after.any()):
        return "self only"
    if torch.equal(before, all_before) and torch.equal(after, all_after):
        return "all"
    if not after.any():
        return "causal"
    return "some" if before.any() else "anti-causal"
