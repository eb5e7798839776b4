"""What every exported .onnx file has in common: its versions, and the proof inside it.

Opset 18 and IR 8, so that an onnxruntime of some years ago opens it: tried with 1.17.3, which refuses IR 10.
"""

import json
from pathlib import Path
from typing import Any

from foveal.atomic import write_atomic
from foveal.errors import FovealError
from foveal.runtime.onnx_names import PROOF

OPSET, IR = 18, 8


def needed_onnx() -> Any:
    """The module onnx; an error that names the extra to install where it is not there."""
    try:
        import onnx
        import onnxscript  # noqa: F401 — torch's exporter asks for it, with words of its own
    except ModuleNotFoundError as error:
        raise FovealError(
            f"to export: expected {error.name} to be installed, got none; pip install foveal[train]"
        ) from None
    return onnx


def write_export(content: bytes, proof: dict[str, Any], file: Path) -> None:
    """Put the proof into the file, and write it whole or not at all."""
    proto = needed_onnx().load_model_from_string(content)
    entry = proto.metadata_props.add()
    entry.key, entry.value = PROOF, json.dumps(proof)
    write_atomic(file, proto.SerializeToString())
