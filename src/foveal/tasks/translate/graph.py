"""A Transformer that translates as one .onnx file: one graph that reads a source, and takes a step of a search.

    source has words   reads it:     source (S, M) → keys.l, values.l (S, H, M, D) of every decoder layer l, which all steps look at
    source is empty    takes a step: said (R,), the last word of each row; said_keys.l, said_values.l (R, H, t, D) of the words before it;
                       source_keys.l, source_values.l (S, H, M, D) and lengths (S,) of the sources, R = S · beams, those of a source
                       together; top (1,) how many words are asked for; banned (n, 2) rows and words that may not be said
                       → likely (R, top) log-probabilities, word (R, top), ends (R,) of the mark that ends;
                         keys.l, values.l (R, H, t + 1, D), which are said_keys.l and said_values.l of the next step

What is not used in a call is given with no rows, and comes back so. The two ways are the branches of one If: a table of words that both read lies
in the file once, and one file is all there is. Vocabulary-wide work stays inside: few numbers leave. 1/√D is in the queries' weights.

Opset 18 and IR 8, as in export.py. The card is in the metadata under `foveal`, the proof under `foveal.proof`.
"""

from typing import Any

from torch import nn

from foveal.deploy.onnx.builder import Nodes
from foveal.errors import FovealError
from foveal.models.transformer import Transformer
from foveal.runtime.card import Card
from foveal.runtime.onnx_names import (
    BANNED,
    CARD,
    ENDS,
    KEYS,
    LENGTHS,
    LIKELY,
    SAID,
    SAID_KEYS,
    SAID_VALUES,
    SOURCE,
    SOURCE_KEYS,
    SOURCE_VALUES,
    TOP,
    VALUES,
    WORD,
)
from foveal.tasks.classify.graph import IR, OPSET, named, onnx_needed
from foveal.tasks.translate.graph_nodes import TABLES, Reads, Steps


def export_translator(model: nn.Module, card: Card, int8: bool = False) -> bytes:
    """The file's content."""
    onnx = onnx_needed()
    if not isinstance(model, Transformer):
        raise FovealError(f"to export: expected a Transformer, got {card.model}; a recurrent model translates with torch only")
    layers = range(model.config.decoder_layers)
    (reads, kept), (steps, answered) = Reads(model, int8).written(), Steps(model, int8).written()
    shared = frozenset(name for name in set(reads.weights) & set(steps.weights) if name.startswith(TABLES))
    helper, kind = onnx.helper, onnx.TensorProto

    def tensor(name: str, of: int, *shape: Any) -> Any:
        return helper.make_tensor_value_info(name, of, list(shape))

    told = [(LIKELY, kind.FLOAT, 2), (WORD, kind.INT64, 2), (ENDS, kind.FLOAT, 1)]
    told += [(name.format(layer), kind.FLOAT, 4) for layer in layers for name in (KEYS, VALUES)]
    branches = [
        nodes.graph([], [tensor(name, of, *[None] * axes) for name, (_, of, axes) in zip(outputs, told, strict=True)], shared)
        for nodes, outputs in ((reads, kept), (steps, answered))
    ]
    whole = Nodes("translator")
    begins = whole("Greater", whole("Size", SOURCE), whole.one(0))
    whole.nodes.append(helper.make_node("If", [begins], [name for name, *_ in told], then_branch=branches[0], else_branch=branches[1]))
    whole.weights |= {name: reads.weights[name] for name in sorted(shared)}
    inputs = [tensor(SOURCE, kind.INT64, "read", "words"), tensor(SAID, kind.INT64, "rows"), tensor(TOP, kind.INT64, 1)]
    inputs += [tensor(BANNED, kind.INT64, "bans", 2), tensor(LENGTHS, kind.INT64, "sources")]
    for layer in layers:
        own, cross = (getattr(model.decoder[layer], part).layer for part in ("self_attention", "cross_attention"))
        shape = "sources", cross.groups, "length", cross.head_width
        inputs += [tensor(name.format(layer), kind.FLOAT, *shape) for name in (SOURCE_KEYS, SOURCE_VALUES)]
        shape = "rows", own.groups, "past", own.head_width
        inputs += [tensor(name.format(layer), kind.FLOAT, *shape) for name in (SAID_KEYS, SAID_VALUES)]
    graph = whole.graph(inputs, [tensor(name, of, *[None] * axes) for name, of, axes in told])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
    proto.producer_name, proto.producer_version = "foveal", card.foveal
    helper.set_model_props(proto, {CARD: named(card).text()})
    onnx.checker.check_model(proto)
    content: bytes = proto.SerializeToString()
    return content
