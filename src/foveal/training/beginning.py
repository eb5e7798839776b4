"""The weights that a run begins with: ImageNet's, or those of a trained model, wherever shapes agree."""

import sys

from torch import nn

from foveal.models.imagenet import begin_with_imagenet
from foveal.models.store import begin_with
from foveal.runtime.packaged import IMAGENET


def begin_with_weights(model: nn.Module, init_from: str, name: str, quiet: bool = False) -> None:
    """name: what the model was asked for by. quiet: not a word about weights that did not fit."""
    if init_from == IMAGENET:
        fitting = begin_with_imagenet(model, name)
    else:
        fitting = begin_with(model, init_from, (IMAGENET,))
    all_ = len(model.state_dict())
    if fitting < all_ and not quiet:
        line = f"{fitting} of {all_} tensors begin with {init_from}; the others do not fit and are new"
        print(line, file=sys.stderr, flush=True)
