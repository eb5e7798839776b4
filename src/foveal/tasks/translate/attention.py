"""The attention maps of a translator that generates a given sentence: every layer and head,
in one pass over source and translation.

    encoder   α (L, H, M, M)   a token of the source attends to all of its source
    decoder   α (L, H, N, N)   the token that is generated attends to the mark that begins, and to the tokens before it
    cross     α (L, H, N, M)   the token that is generated attends to the source

Symbols: M tokens of the source and its end; N tokens of the translation and its end. Row i is of the step that
generates token i. The translation is given, so these are the maps of that sentence, whichever beam it was and whatever
the others attended to on the way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from foveal.core.watch import Seen, watch
from foveal.errors import FovealError, expect

Maps = NDArray[np.float32]
KINDS = ("encoder", "decoder", "cross")


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    maps: dict[str, Maps]  # by kind, (L, H, rows, columns); what a model does not have is not there

    @property
    def average(self) -> Maps:
        """(N, M): where the tokens of the translation attended in the source, the mean of all layers and heads."""
        return np.asarray(self.maps["cross"].mean((0, 1)))


@torch.no_grad()
def attention_maps(model: Any, source: Sequence[int], tokens: Sequence[int]) -> AttentionMaps:
    """The maps of a Transformer, or of a recurrent model with attention, that generates these tokens.

    Both without marks.
    """
    expect(bool(source), "the sentence", "at least one token", "none")
    config, device = model.config, next(model.parameters()).device
    given = torch.tensor([[config.begin, *tokens]], device=device)
    try:
        with watch(model) as watched:
            model(torch.tensor([[*source, config.end]], device=device), given)
    except FovealError as error:
        if "watch saw nothing" not in str(error):
            raise
        raise FovealError("to explain: expected a translator with attention, got one without, such as rnn") from None
    if "attention" in watched:  # of a recurrent model: one map per token
        rows = np.concatenate([_map(watched, name) for name in watched], 2)
        return AttentionMaps({"cross": rows})
    named = {
        "encoder": "encoder.{}.attention.layer",
        "decoder": "decoder.{}.self_attention.layer",
        "cross": "decoder.{}.cross_attention.layer",
    }
    counts = {"encoder": config.layers, "decoder": config.decoder_layers, "cross": config.decoder_layers}
    each = {kind: [_map(watched, name.format(layer)) for layer in range(counts[kind])] for kind, name in named.items()}
    same = all(len({one.shape for one in layers}) == 1 for layers in each.values())
    expect(same, "to explain", "a model with the same heads in every layer", "one that was pruned unevenly")
    return AttentionMaps({kind: np.concatenate(layers) for kind, layers in each.items()})


def _map(watched: Seen, name: str) -> Maps:
    return np.asarray(watched[name].weights.float().cpu().numpy())  # (1, H, rows, columns)
