"""Translators of every kind, small enough to export in a moment,
whose translations differ from sentence to sentence.
"""

import torch
from training.sentences import WORDS

from foveal.models.store import describe
from foveal.models.zoo import create
from foveal.runtime.vocabulary import learn, text_of
from foveal.tasks.model import Model
from foveal.tasks.task import find_task
from foveal.tasks.translate.card import TranslateCard

SIZE = 283
KINDS = {
    "post-LN, sinusoidal": {},
    "pre-LN, rotary": {"norm": "pre", "position": "rotary", "head_width": 6},
    "relative, swish": {"position": "relative", "activation": "swish", "decoder_layers": 3},
    "learned, gelu": {"position": "learned", "max_length": 97, "activation": "gelu"},
    "own tables, bias": {"tied": "none", "output_bias": True, "width": 21, "heads": 3},
    "output tied, wide heads": {"tied": "output", "head_width": 10, "position": "none"},
    "no norm": {"norm": "none"},
    "no residual": {"residual": False, "norm": "pre"},
}


def made(kind="post-LN, sinusoidal", **config):
    torch.manual_seed(3)
    small = {
        "width": 22,
        "hidden": 26,
        "heads": 2,
        "layers": 2,
        "decoder_layers": 2,
        "source_vocab": SIZE,
        "target_vocab": SIZE,
    }
    model = create("transformer-tiny", **small | KINDS[kind] | config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.07 * torch.randn_like(weight))  # new biases are 0, and new weights give every token the same
    words = learn([f"{one} {two}" for one, two in WORDS.items()] * 3, SIZE)
    family, own = describe(model)
    return model, TranslateCard(model="transformer-tiny", family=family, config=own, vocabulary=text_of(words, words))


def opened(network, card):
    """As foveal.load gives it."""
    return Model(find_task("translate"), card, network=network, device="cpu")
