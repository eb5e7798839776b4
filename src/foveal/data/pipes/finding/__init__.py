"""The kinds of findings, one file each."""

from foveal.data.pipes.finding import (
    crack_circular,
    crack_longitudinal,
    deposit,
    fracture,
    hole,
    infiltration,
    joint_displaced,
    joint_open,
    lateral,
    lateral_protruding,
    lining,
    obstacle,
    root,
    sag,
    surface,
)
from foveal.data.pipes.finding.kind import Kind, Place

_FILES = (
    crack_longitudinal,
    crack_circular,
    fracture,
    hole,
    joint_displaced,
    root,
    deposit,
    lateral,
    lateral_protruding,
    infiltration,
    obstacle,
    sag,
    lining,
    surface,
    joint_open,
)
FINDINGS: dict[str, Kind] = {file.KIND.name: file.KIND for file in _FILES}

__all__ = ["FINDINGS", "Kind", "Place"]
