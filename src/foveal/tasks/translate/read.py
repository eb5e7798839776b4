"""The data of a trained translator, read as its recipe read them.

No torch here: an exported file is evaluated without.
"""

from foveal.data.parallel import MAX_LENGTH, Parallel, read_parallel
from foveal.data.parallel_files import SIDES
from foveal.tasks.translate.card import TranslateCard


def read_like(card: TranslateCard, where: str) -> Parallel:
    """Data as this model's own was read: its languages, and the same limit of length,
    since another one would make other splits by hash.
    """
    languages = card.languages
    source, target = (None, None) if languages in ((), SIDES) else languages
    return read_parallel(
        where, source=source, target=target, bad="drop", max_length=card.recipe.get("max_length", MAX_LENGTH)
    )
