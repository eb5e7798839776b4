"""Which part of a classifier is which: what sees pixels, what is computed again, what is recorded.

What sees pixels may be frozen (--backbone-lr 0): on images of groups that were not seen, a linear classifier on
features of other photographs is often better than features that have moved to fit a few hundred of one's own.

Paper, if recipe.backbone_lr == 0: Ananya Kumar, Aditi Raghunathan, Robbie Jones, Tengyu Ma, Percy Liang (2022).
    Fine-tuning can distort pretrained features and underperform out-of-distribution. ICLR. arXiv:2202.10054.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from foveal.models.efficientnet_lite import EfficientNetLite
from foveal.models.icam import Icam
from foveal.models.mbconv import Stages
from foveal.training.recompute import outermost_blocks


def is_backbone(model: nn.Module, name: str) -> bool:
    """Whether a weight of this name belongs to what sees pixels: ICAM's Φ, EfficientNet-Lite up to its last mean,
    or all of another model but its last layer.
    """
    if isinstance(model, Icam):
        return name.startswith("phi.")
    if isinstance(model, EfficientNetLite):
        return name.startswith(("stages.", "top."))
    return not name.startswith(("net.classifier", "head."))


def blocks_of(model: nn.Module) -> Iterator[nn.Module]:
    """What is computed again under gradient checkpointing: the blocks of ICAM's Φ and its decoder's layers.

    Of another model, its stages or its outermost lists of blocks.
    """
    if isinstance(model, Icam):
        yield from model.phi.children() if isinstance(model.phi, Stages) else [model.phi]
        yield from model.layers
        return
    yield from outermost_blocks(model, (nn.ModuleList, Stages))


def record(model: nn.Module, sample: Tensor) -> None:
    """Record the forward and the backward pass as CUDA graphs, so that a step is two launches instead of hundreds.

    The warm-up moves BatchNorm's statistics: they are put back, or a run that is resumed would differ from one that
    was never stopped.
    """
    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    sample = sample.contiguous(memory_format=torch.channels_last)
    torch.cuda.make_graphed_callables(model, (sample,))
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(kept[name])
        for parameter in model.parameters():
            parameter.grad = None
