"""What a check says: one finding for each mistake, and the report that holds them all."""

import textwrap
from dataclasses import dataclass, field
from typing import Literal

from foveal.errors import unknown

Outcome = Literal["ok", "mistake", "not applicable"]

MISTAKES = {  # the name of a finding → the mistake that it looks for
    "dropout": "dropout active in evaluation",
    "mask": "a mask read the wrong way round",
    "scale": "a wrong scale",
    "empty row": "a row with nothing to look at gives NaN",
    "cache": "cached decoding differs from the full pass",
    "axes": "(B, H, N, D) taken for (B, N, H, D)",
    "paper": "departs from its paper without saying so",
}


@dataclass(frozen=True)
class Finding:
    """One mistake looked for: what was found, in words and in numbers (measured, expected, …)."""

    name: str
    outcome: Outcome
    message: str
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """All findings on one module, in the order of `MISTAKES`. `how` says in which way the module was called."""

    name: str
    how: str
    findings: tuple[Finding, ...]

    @property
    def mistakes(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.outcome == "mistake")

    @property
    def ok(self) -> bool:
        return not self.mistakes

    def __getitem__(self, name: str) -> Finding:
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise unknown("finding", name, MISTAKES)

    def __str__(self) -> str:
        first, second = max(map(len, MISTAKES.values())), len("not applicable")
        lines = [self.name, *textwrap.wrap(f"called as {self.how}", 132), ""]
        for finding in self.findings:
            outcome = finding.outcome.upper() if finding.outcome == "mistake" else finding.outcome
            message = textwrap.wrap(finding.message, 72) or [""]
            lines.append(f"{MISTAKES[finding.name]:<{first}}  {outcome:<{second}}  {message[0]}")
            lines.extend(" " * (first + second + 4) + line for line in message[1:])
        named = ", ".join(finding.name for finding in self.mistakes)
        count, applied = len(self.mistakes), sum(finding.outcome != "not applicable" for finding in self.findings)
        last = f"{count} mistake{'s' if count > 1 else ''}: {named}" if count else "no mistake"
        return "\n".join([*lines, "", f"{last} ({applied} of {len(self.findings)} could be measured)"])
