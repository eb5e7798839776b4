"""Where models lie: in a run's folder, or in the package, by name.

No torch here: saying that a file is missing must not cost torch's start.
"""

from pathlib import Path

from foveal.file_names import expanded

WEIGHTS = Path(__file__).parent / "weights"
SUFFIX, EXPORTED = ".safetensors", ".onnx"
FILE = "model.safetensors"  # what a model is called in a run's folder
IMAGENET = "imagenet"  # to begin with: weights out of packages of others, models/imagenet.py
DEFAULT = "icam-fast-pipes"  # what inspects images where no model is named


def names() -> tuple[str, ...]:
    """The weights that come with foveal.

    Each is there as .safetensors, for training, and as .onnx, which runs without torch.
    """
    return tuple(sorted(file.stem for file in WEIGHTS.glob(f"*{SUFFIX}")))


def packaged(name: str, suffix: str = SUFFIX) -> Path | None:
    """The file of these weights; None where foveal has none of that name."""
    file = WEIGHTS / f"{name}{suffix}"
    return file if name in names() and file.is_file() else None


def is_file(name: str) -> bool:
    """Whether a name means a model that lies somewhere: a file, a run's folder, or weights in the package.

    Else it may be a preset's.
    """
    path = expanded(name)
    return path.suffix == SUFFIX or (path / FILE).is_file() or packaged(name) is not None
