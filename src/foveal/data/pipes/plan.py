"""What is found in a frame: nothing in about a third of the frames, else one to three kinds that go together."""

import numpy as np

from foveal.data.pipes.finding import FINDINGS

COUNTS = (0.35, 0.36, 0.20, 0.09)  # share of frames with 0, 1, 2 and 3 findings
# pairs that a person could not tell apart in one frame, or of which one is the other
APART = (
    {"lateral", "lateral-protruding"},
    {"deposit", "obstacle"},
    {"fracture", "hole"},
    {"crack-circular", "joint-displaced"},
    {"crack-circular", "joint-open"},
    {"joint-displaced", "joint-open"},
    {"sag", "deposit"},
    {"sag", "obstacle"},
    {"surface", "fracture"},
    {"surface", "hole"},
    {"surface", "lining"},
)


def draw_kinds(random: np.random.Generator) -> tuple[str, ...]:
    """Some kinds that go together."""
    count = int(random.choice(len(COUNTS), p=COUNTS))
    kinds: list[str] = []
    for name in random.permutation(list(FINDINGS)):
        if len(kinds) < count and not any({str(name), other} in APART for other in kinds):
            kinds.append(str(name))
    return tuple(kinds)
