"""What the image models of Transformer blocks share: how they begin, what they take, and their stochastic depth.

And how any image model lies in memory, and is made lighter once it is trained.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from foveal.errors import FovealError, expect, expect_integer, is_number, short_repr
from foveal.layers.attention import check_dtype
from foveal.layers.encoder import Encoder
from foveal.layers.feed_forward import FeedForward
from foveal.layers.residual import PreNorm
from foveal.position.bias_table import BiasTable
from foveal.position.learned_2d import Learned2d

DEVIATION = 0.02  # of new weights, as the code of ViT's ports, of Swin and of PVT draws them


def block(attention: nn.Module, hidden: int, config: Any, drop_path: float) -> Encoder:
    """x̂ = x + attention(LN(x));  y = x̂ + FFN(LN(x̂)), with GELU."""
    network = FeedForward(attention.width, hidden, nn.GELU(), config.dropout)  # type: ignore[arg-type]
    return Encoder(attention, network, PreNorm, config.dropout, drop_path=drop_path)


def depth_rates(rate: float, blocks: int) -> list[float]:
    """Stochastic depth of each block: from 0 in the first to `rate` in the last, as Huang et al. (2016) let it grow."""
    return [rate * number / max(blocks - 1, 1) for number in range(blocks)]


def begin(model: nn.Module, epsilon: float) -> None:
    """New weights: a normal distribution, cut off, of deviation 0.02; biases 0. epsilon: of every LayerNorm.

    A convolution without a bias has BatchNorm behind it, which undoes any scale: it stays as torch draws it.
    """
    for part in model.modules():
        if isinstance(part, nn.Linear) or (isinstance(part, nn.Conv2d) and part.bias is not None):
            nn.init.trunc_normal_(part.weight, std=DEVIATION)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, (Learned2d, BiasTable)):
            nn.init.trunc_normal_(part.table, std=DEVIATION)
        elif isinstance(part, nn.LayerNorm):
            part.eps = epsilon


def token(width: int) -> nn.Parameter:
    """One learned vector, (1, 1, C)."""
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(1, 1, width), std=DEVIATION))


def channels_last(model: nn.Module) -> nn.Module:
    """The same model, whose convolutions' weights lie in memory as images do.

    torch's own `to` refuses a model in which a weight has five axes, such as kernels that are mixed.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.dim() == 4:
            # not `contiguous`, which leaves the strides of a single channel as they are, and DDP warns of those
            tensor.data = tensor.data.to(memory_format=torch.channels_last)
    return model


def fold_batch_norms(model: nn.Module) -> nn.Module:
    """The same model, in place, for evaluation alone: a convolution does what the BatchNorm behind it did, and what is
    rectified behind that is not copied.

    Of a Sequential that begins with the two, as all of foveal's own convolutions are; transformers' models have none.
    """
    expect(not model.training, "fold_batch_norms", "a model in evaluation mode", "one that is being trained")
    for part in model.modules():
        if not isinstance(part, nn.Sequential):
            continue
        layers = list(part)
        if len(layers) < 2 or not isinstance(layers[0], nn.Conv2d) or not isinstance(layers[1], nn.BatchNorm2d):
            continue
        part[0], part[1] = fuse_conv_bn_eval(layers[0], layers[1]), nn.Identity()
        for after in layers[2:]:
            if isinstance(after, (nn.ReLU, nn.ReLU6)):
                after.inplace = True
    return model


def check_images(model: nn.Module, images: Tensor, least: int, weight: Tensor) -> None:
    """Raise a FovealError that names the model unless images are (B, 3, h, w), large enough, and fit its weights."""
    name = f"{type(model).__name__}'s images"
    sides = f"(B, 3, h, w) with sides of at least {least}"
    if not isinstance(images, Tensor):
        raise FovealError(f"{name}: expected a tensor {sides}, got {short_repr(images)}")
    shape = tuple(images.shape)
    if len(shape) != 4 or shape[1] != 3 or min(shape[2:]) < least:
        raise FovealError(f"{name}: expected {sides}, got {shape}; resize them")
    check_dtype(model, "images", images, weight)


def check_fields(config: Any, integers: tuple[str, ...]) -> None:
    """Raise a FovealError unless these fields are integers from 1 on, or tuples of such, and the rates are rates."""
    name = type(config).__name__.removesuffix("Config")
    for field in integers:
        value = getattr(config, field)
        listed = isinstance(value, tuple)
        for one in value if listed else (value,):
            expect_integer(one, f"{name}'s {field}")
    for field in ("dropout", "attention_dropout", "drop_path"):
        rate = getattr(config, field)
        fits = is_number(rate) and 0 <= rate < 1
        expect(fits, f"{name}'s {field}", "at least 0 and below 1", short_repr(rate))
    epsilon = getattr(config, "epsilon", 1e-5)
    expect(is_number(epsilon) and epsilon > 0, f"{name}'s epsilon", "a number above 0", short_repr(epsilon))


def check_stages(config: Any, fields: tuple[str, ...]) -> None:
    """Raise a FovealError unless each of these fields has one entry for each of four stages."""
    name = type(config).__name__.removesuffix("Config")
    for field in fields:
        value = getattr(config, field)
        fits = isinstance(value, tuple) and len(value) == 4
        expect(fits, f"{name}'s {field}", "four numbers, one for each stage", short_repr(value))


def as_tuples(config: Any, fields: tuple[str, ...]) -> None:
    """A recipe or a card writes a tuple as a list: in a frozen config it becomes a tuple again."""
    for field in fields:
        if isinstance(getattr(config, field), list):
            object.__setattr__(config, field, tuple(getattr(config, field)))
