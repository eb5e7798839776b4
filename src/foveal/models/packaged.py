"""Where models lie: in a run's folder, or in the package, by name. No torch here: to say that a file is missing must not cost its start."""

from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights"
FILE = "model.safetensors"  # what a model is called in a run's folder
DEFAULT = "icam-pipes"  # what inspects pictures where no model is named


def packaged(name: str) -> Path | None:
    """The file of these weights; None where foveal has none of that name."""
    names = {file.stem: file for file in WEIGHTS.glob("*.safetensors")}
    return names.get(name)
