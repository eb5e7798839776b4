"""An exported file, opened: onnxruntime's session, the text of its card, and its proof.

Opening it runs no code but onnxruntime's own operators.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foveal.errors import FovealError, expect, expect_integer, expect_plain_file
from foveal.runtime.onnx_names import CARD, PROOF
from foveal.runtime.onnx_session import opened

MOST_THREADS = 256  # more are a mistake, and each takes memory


@dataclass(frozen=True, eq=False)
class ExportedFile:
    file: str
    session: Any
    card: str  # as JSON: the task reads it
    proof: dict[str, Any]


def open_exported(file: str | Path, threads: int = 1) -> ExportedFile:
    """threads: that compute one batch; one is what a small processor can spare, and what timings are given for."""
    expect_integer(threads, "threads")
    expect(threads <= MOST_THREADS, "threads", f"at most {MOST_THREADS}", threads)
    session = open_graph(Path(file), threads)
    facts = session.get_modelmeta().custom_metadata_map
    expect(CARD in facts, str(file), "a model that foveal exported", "an ONNX file without foveal's card")
    return ExportedFile(str(file), session, facts[CARD], _proof(facts.get(PROOF), file))


def metadata(file: str | Path) -> dict[str, str]:
    """What is written in an ONNX file beside its graph."""
    return dict(open_graph(Path(file), 1).get_modelmeta().custom_metadata_map)


def open_graph(file: Path, threads: int = 1) -> Any:
    """onnxruntime's session of anybody's graph."""
    expect_plain_file(file)
    content = file.read_bytes()
    expect(bool(content), str(file), "an ONNX graph", "an empty file")
    try:
        return opened(content, threads)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # noqa: BLE001 — onnxruntime has an exception for each kind of damage
        reason = " ".join(str(error).split())[:160]
        raise FovealError(
            f"{file}: expected an exported model, got a file that onnxruntime cannot open: {reason}"
        ) from None


def _proof(text: str | None, file: str | Path) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        proof = json.loads(text)
    except (ValueError, RecursionError):
        proof = None
    expect(isinstance(proof, dict), str(file), "a proof in JSON", "something else; the file is damaged")
    return dict(proof)
