"""An exported file, opened: onnxruntime's session, the text of its card, and its proof.

Opening it runs no code but onnxruntime's own operators.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.errors import FovealError, expect, expect_integer, expect_plain_file, short_repr
from foveal.runtime.onnx_names import CARD, PROOF
from foveal.runtime.onnx_session import opened

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_THREADS = 256  # more are a mistake, and each takes memory


class Session:
    """An exported file, opened: arrays in, arrays out, by their names.

    Session("inspector.onnx")({"frames": frames})       # of icam-fast-pipes: probability, found, logits
    """

    def __init__(self, file: str | Path, threads: int = 1) -> None:
        """threads: that compute one batch; one is what a small processor can spare, and what timings are given for."""
        expect(isinstance(file, (str, Path)), "an exported file", "its path", short_repr(file))
        expect_integer(threads, "threads")
        expect(threads <= MOST_THREADS, "threads", f"at most {MOST_THREADS}", threads)
        self.file, self.session = str(file), open_graph(Path(file), threads)
        facts = self.session.get_modelmeta().custom_metadata_map
        expect(CARD in facts, self.file, "a model that foveal exported", "an ONNX file without foveal's card")
        self.card: str = facts[CARD]  # as JSON: the task reads it
        self.proof = _proof(facts.get(PROOF), file)
        self.inputs = tuple(one.name for one in self.session.get_inputs())
        self.outputs = tuple(one.name for one in self.session.get_outputs())

    def __call__(self, inputs: "Mapping[str, NDArray[Any]]", outputs: Sequence[str] | None = None) -> dict[str, Any]:
        """What the graph makes of these inputs; outputs: which of its outputs, by default all."""
        given = isinstance(inputs, Mapping) and set(inputs) == set(self.inputs)
        got = ", ".join(map(str, inputs)) if isinstance(inputs, Mapping) else short_repr(inputs)
        expect(given, "inputs", f"arrays by name, {', '.join(self.inputs)}", got)
        names = list(self.outputs if outputs is None else outputs)
        known = bool(names) and not isinstance(outputs, str) and set(names) <= set(self.outputs)
        expect(known, "outputs", f"some of {', '.join(self.outputs)}", short_repr(outputs))
        try:
            answers = self.session.run(names, dict(inputs))
        except Exception as error:  # noqa: BLE001 — a file from anybody may fail in any operator
            reason = " ".join(str(error).split())[:160]
            raise FovealError(f"{self.file}: expected an answer, got {reason}") from None
        return dict(zip(names, answers, strict=True))


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
