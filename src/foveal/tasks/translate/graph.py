"""A Transformer as one .onnx file: one graph that encodes a source, and takes a step of a search.

    source has tokens  encodes it
                       in   source (S, M)
                       out  keys.l, values.l (S, H, M, D) of every decoder layer l, which all steps attend to
    source is empty    takes a step
                       in   said (R,), the last token of each row
                            said_keys.l, said_values.l (R, H, t, D) of the tokens before it
                            source_keys.l, source_values.l (S, H, M, D) and lengths (S,) of the sources; R = S · beams,
                            those of a source together
                            top (1,) how many tokens are asked for;   banned (n, 2) rows and tokens that may not come
                       out  likely (R, top) log-probabilities, word (R, top) their tokens,
                            ends (R,) of the mark that ends
                            keys.l, values.l (R, H, t + 1, D), which are said_keys.l and said_values.l of the next step

What is not used in a call is given with no rows, and comes back so. The two ways are the branches of one If: an
embedding table that both read lies in the file once, and one file is all there is. Vocabulary-wide work stays inside:
few numbers leave. 1/√D is in the queries' weights.

The card is in the metadata under `foveal`, the proof under `foveal.proof`.
"""

from typing import Any

from torch import nn

from foveal.deploy.onnx.builder import Nodes
from foveal.deploy.onnx.file import IR, OPSET, needed_onnx
from foveal.errors import FovealError
from foveal.models.transformer import Transformer
from foveal.runtime.onnx_names import CARD
from foveal.tasks.translate import graph_names as names
from foveal.tasks.translate.card import TranslateCard
from foveal.tasks.translate.graph_nodes import TABLES, Reads, Steps


def export_translator(model: nn.Module, card: TranslateCard, int8: bool = False) -> bytes:
    """The file's content."""
    onnx = needed_onnx()
    if not isinstance(model, Transformer):
        raise FovealError(
            f"to export: expected a Transformer, got {card.model}; a recurrent model runs with torch only"
        )
    layers = range(model.config.decoder_layers)
    (reads, kept), (steps, answered) = Reads(model, int8).written(), Steps(model, int8).written()
    shared = frozenset(name for name in set(reads.weights) & set(steps.weights) if name.startswith(TABLES))
    helper, kind = onnx.helper, onnx.TensorProto

    def tensor(name: str, of: int, *shape: Any) -> Any:
        return helper.make_tensor_value_info(name, of, list(shape))

    results = [(names.LOG_P, kind.FLOAT, 2), (names.NEXT, kind.INT64, 2), (names.ENDS, kind.FLOAT, 1)]
    results += [(name.format(layer), kind.FLOAT, 4) for layer in layers for name in (names.KEYS, names.VALUES)]
    branches = [
        nodes.graph(
            [], [tensor(name, of, *[None] * axes) for name, (_, of, axes) in zip(outputs, results, strict=True)], shared
        )
        for nodes, outputs in ((reads, kept), (steps, answered))
    ]
    outer = Nodes("translator")
    begins = outer("Greater", outer("Size", names.SOURCE), outer.one(0))
    outer.nodes.append(
        helper.make_node(
            "If", [begins], [name for name, *_ in results], then_branch=branches[0], else_branch=branches[1]
        )
    )
    outer.weights |= {name: reads.weights[name] for name in sorted(shared)}
    inputs = [
        tensor(names.SOURCE, kind.INT64, "read", "tokens"),
        tensor(names.TOKENS, kind.INT64, "rows"),
        tensor(names.TOP_K, kind.INT64, 1),
    ]
    inputs += [tensor(names.BANNED, kind.INT64, "bans", 2), tensor(names.LENGTHS, kind.INT64, "sources")]
    for layer in layers:
        own, cross = (getattr(model.decoder[layer], part).layer for part in ("self_attention", "cross_attention"))
        shape = "sources", cross.groups, "length", cross.head_width
        inputs += [tensor(name.format(layer), kind.FLOAT, *shape) for name in (names.SOURCE_KEYS, names.SOURCE_VALUES)]
        shape = "rows", own.groups, "past", own.head_width
        inputs += [tensor(name.format(layer), kind.FLOAT, *shape) for name in (names.PAST_KEYS, names.PAST_VALUES)]
    graph = outer.graph(inputs, [tensor(name, of, *[None] * axes) for name, of, axes in results])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
    proto.producer_name, proto.producer_version = "foveal", card.foveal
    helper.set_model_props(proto, {CARD: card.without_paths().text()})
    onnx.checker.check_model(proto)
    content: bytes = proto.SerializeToString()
    return content
