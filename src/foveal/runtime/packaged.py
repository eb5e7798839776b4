"""Where models lie: in a run's folder, or in the package, by name. No torch here: to say that a file is missing must not cost its start."""

from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights"
SUFFIX = ".safetensors"
FILE = "model.safetensors"  # what a model is called in a run's folder
DEFAULT = "icam-fast-pipes"  # what inspects pictures where no model is named


def packaged(name: str) -> Path | None:
    """The file of these weights; None where foveal has none of that name."""
    names = {file.stem: file for file in WEIGHTS.glob("*.safetensors")}
    return names.get(name)


def is_file(name: str) -> bool:
    """Whether a name means a model that lies somewhere: a file, a run's folder, or weights in the package. Else it may be a preset's."""
    path = Path(name).expanduser()
    return path.suffix == SUFFIX or (path / FILE).is_file() or packaged(name) is not None
