"""What torch's exporter made of a model, as a file of foveal's: without its makers' notes, with the model's card."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._dynamo.exc import UserError

from foveal.deploy.onnx.chunks import graphs
from foveal.deploy.onnx.file import IR, needed_onnx
from foveal.deploy.onnx.shapes import constant_shapes
from foveal.errors import FovealError
from foveal.runtime.card import Card
from foveal.runtime.onnx_names import CARD


def described(proto: Any, card: Card) -> bytes:
    """The file's content."""
    onnx = needed_onnx()
    constant_shapes(proto)
    _strip(proto)
    proto.ir_version = min(proto.ir_version, IR)
    proto.producer_name, proto.producer_version = "foveal", card.foveal
    onnx.helper.set_model_props(proto, {CARD: card.without_paths().text()})
    onnx.checker.check_model(proto)
    content: bytes = proto.SerializeToString()
    return content


@contextlib.contextmanager
def followed(model: str) -> Iterator[None]:
    """One line where the exporter cannot follow a model of this name."""
    try:
        yield
    except (torch.onnx.errors.OnnxExporterError, UserError) as error:
        cause = error.__cause__ or error
        reason = " ".join(str(cause).split())[:200]
        raise FovealError(f"to export: expected a {model} that torch's exporter can follow, got {reason}") from None


def _strip(proto: Any) -> None:
    """Remove what the exporter notes for its makers: lines of source code with their paths, names of modules."""
    for graph in (*graphs(proto), *proto.functions):
        for node in graph.node:
            node.ClearField("metadata_props")
            node.ClearField("doc_string")
    for some in (proto.graph.value_info, proto.graph.input, proto.graph.output, proto.graph.initializer):
        for one in some:
            one.ClearField("metadata_props")
            one.ClearField("doc_string")
    proto.graph.ClearField("value_info")  # shapes in between, which any reader finds again
    proto.graph.ClearField("metadata_props")
    proto.ClearField("metadata_props")
    proto.graph.doc_string = ""
