"""Validation pairs that the importance of a translator's heads is measured on, and the loss of one."""

from typing import TYPE_CHECKING, Any

from torch import Tensor

from foveal.data.parallel import Pairs
from foveal.data.token_batches import TextBatch, TokenPairs, collate
from foveal.errors import expect
from foveal.losses.token_loss import token_loss
from foveal.runtime.vocabulary import both_from
from foveal.tasks.task import LabelledBatches
from foveal.tasks.translate.card import TranslateCard
from foveal.tasks.translate.read import read_like

if TYPE_CHECKING:
    from foveal.tasks.model import Model


def labelled_batches(model: "Model", count: int) -> LabelledBatches:
    """The first pairs of the validation split, one per batch."""
    card = model.card
    assert isinstance(card, TranslateCard)
    where = card.recipe.get("data")
    expect(
        bool(card.vocabulary) and bool(where),
        model.name,
        "a trained model that names its data",
        "one without",
        "name the heads",
    )
    data = read_like(card, str(where))
    pairs = data.splits["val"]
    some = Pairs(pairs.source[:count], pairs.target[:count])
    tokens = TokenPairs.encoded(some, *both_from(card.vocabulary))
    device = next(model.network.parameters()).device
    batches = [TextBatch(*(part.to(device) for part in collate(tokens[[place]]))) for place in range(len(some))]
    return LabelledBatches(batches, sentence_loss, f"{len(some)} pairs of the validation split of {data.name}")


def sentence_loss(network: Any, batch: TextBatch) -> Tensor:
    """The mean cross-entropy over the tokens of a batch."""
    hidden = network.decode(batch.target_in, network.encode(batch.source)).flatten(0, 1).index_select(0, batch.places)
    tokens = batch.target_out.flatten().index_select(0, batch.places)
    return token_loss(hidden, network.tables.of_output, tokens, 0.0, network.tables.bias)
