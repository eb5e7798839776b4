"""A gauge as one .onnx file: frames (B, S, S, 3) of bytes → value (B,). The card and the proof are in its metadata."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from foveal.atomic import write_atomic
from foveal.deploy.onnx.silence import quiet
from foveal.errors import expect
from foveal.options import Options, option
from foveal.runtime.onnx_names import CARD, PROOF
from foveal.runtime.onnx_session import opened
from foveal.tasks.model import Model
from foveal.tasks.task import Exported

LIMIT = 1e-4  # how far the file may be from its model


@dataclass(frozen=True)
class ExportOptions(Options):
    frames: int = option(16, "frames of noise that the proof compares", least=1)


class Frames(nn.Module):
    """Pixels become input in this one place: the exported graph holds it, too."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, frames: Tensor) -> Tensor:
        return self.network(frames.permute(0, 3, 1, 2).float() / 255)  # type: ignore[no-any-return]


class GaugeExported(Exported):
    def __init__(self, path: Path, proof: dict[str, Any]) -> None:
        self.path, self.proof = path, proof

    def summary(self) -> str:
        return f"{self.path}: {self.path.stat().st_size:,} bytes, at most {self.proof['largest']:.2g} from its model"


def graph(model: Model) -> bytes:
    import onnx

    frames = torch.zeros(2, *[model.card.size] * 2, 3, dtype=torch.uint8)  # type: ignore[attr-defined]
    with quiet():
        program = torch.onnx.export(
            Frames(model.network).cpu().eval(), (frames,), input_names=["frames"], output_names=["value"],
            dynamic_shapes=({0: torch.export.Dim("batch")},), dynamo=True, verbose=False,
        )  # fmt: skip
    assert program is not None
    proto = program.model_proto
    onnx.helper.set_model_props(proto, {CARD: model.card.without_paths().text()})
    content: bytes = proto.SerializeToString()
    return content


def export(model: Model, path: Path, options: ExportOptions) -> GaugeExported:
    import onnx

    content = graph(model)
    size = model.card.size  # type: ignore[attr-defined]
    frames = np.random.default_rng(0).integers(0, 256, (options.frames, size, size, 3), np.uint8)
    with torch.no_grad():
        expected = Frames(model.network)(torch.from_numpy(frames)).numpy()
    largest = float(np.abs(opened(content).run(["value"], {"frames": frames})[0] - expected).max())
    expect(largest <= LIMIT, str(path), f"a file within {LIMIT:g} of its model", f"{largest:.2g}")
    proof = {"frames": options.frames, "largest": largest, "limit": LIMIT}
    proto = onnx.load_model_from_string(content)
    entry = proto.metadata_props.add()
    entry.key, entry.value = PROOF, json.dumps(proof)
    write_atomic(path, proto.SerializeToString())
    return GaugeExported(path, proof)
