"""Weights that come with foveal, by name."""

from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights"
DEFAULT = "icam-pipes"  # what inspects pictures where no model is named


def packaged(name: str) -> Path | None:
    """The file of these weights; None where foveal has none of that name."""
    names = {file.stem: file for file in WEIGHTS.glob("*.safetensors")}
    return names.get(name)
