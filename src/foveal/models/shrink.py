"""A smaller build of a model: the same modules in the same order, some of their axes shorter.

What pruning leaves, and what its file is opened as.

    W′ = W[:n₁, :n₂, …]   for each tensor that has shapes of its own
    then every module's sizes are read off its tensors; a module that keeps others has a method `read_sizes`

A file holds the tensors, its card their shapes: that is all that pruning leaves to describe. Nothing in a file is run
to open it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from foveal.errors import expect, short_repr
from foveal.layers.multihead import MultiHead

Shapes = dict[str, list[int]]  # name of a tensor → its shape, where that is not what the config says


def shorter(model: nn.Module, whole: nn.Module) -> Shapes:
    """The shapes of a model that differ from those of the whole one."""
    full = whole.state_dict()
    return {
        name: list(tensor.shape)
        for name, tensor in model.state_dict().items()
        if name in full and full[name].shape != tensor.shape
    }


def shrink(model: nn.Module, shapes: Mapping[str, Sequence[int]]) -> nn.Module:
    """Shorten these tensors in place, each to its first entries, and make the modules' sizes agree."""
    owners = dict(model.named_modules())
    tensors: dict[str, Tensor] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, shape in shapes.items():
        full = tensors.get(name)
        expect(
            full is not None, "the shapes of a pruned model", "those of its own tensors", f"one of {short_repr(name)}"
        )
        assert full is not None
        fits = len(shape) == full.dim() and all(1 <= size <= most for size, most in zip(shape, full.shape, strict=True))
        expect(fits, f"the shape of {name}", f"one within {tuple(full.shape)}", short_repr(tuple(shape)))
        place, _, last = name.rpartition(".")
        part = full.detach()[tuple(slice(size) for size in shape)].clone()
        if isinstance(full, nn.Parameter):
            setattr(owners[place], last, nn.Parameter(part, requires_grad=full.requires_grad))
        else:
            setattr(owners[place], last, part)
    fit(model)
    return model


def fit(model: nn.Module) -> None:
    """Make the sizes that modules keep beside their tensors those of the tensors."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.out_features, module.in_features = module.weight.shape
        elif isinstance(module, nn.Conv2d):
            if (
                module.groups == module.in_channels == module.out_channels
            ):  # one filter a channel, also where few are left
                module.groups = module.weight.shape[0]
            module.out_channels, module.in_channels = module.weight.shape[0], module.weight.shape[1] * module.groups
        elif isinstance(module, _BatchNorm) and module.weight is not None:
            module.num_features = len(module.weight)
        elif isinstance(module, nn.LayerNorm) and module.weight is not None:
            module.normalized_shape = tuple(module.weight.shape)
    for module in model.modules():  # what is made of those
        if isinstance(module, MultiHead):
            inner, pairs = module.out.in_features, (module.kv if module.qkv is None else module.qkv).out_features
            module.heads = inner // module.head_width
            module.groups = (pairs if module.qkv is None else pairs - inner) // (2 * module.head_width)
        elif hasattr(module, "read_sizes"):
            module.read_sizes()  # type: ignore[operator]
        elif (query := query_of(module)) is not None:
            width = query.out_features // module.num_attention_heads
            for name, size in (
                ("head_dim", width),
                ("attention_head_size", width),
                ("all_head_size", query.out_features),
            ):
                if hasattr(module, name):
                    setattr(module, name, size)


def query_of(module: nn.Module) -> Any:
    """The projection of the queries in an attention of transformers', None of any other module."""
    if not hasattr(module, "num_attention_heads"):
        return None
    return getattr(module, "q_proj", None) or getattr(module, "query", None)
