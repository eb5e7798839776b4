"""A convolution of one sample whose kernel is a mixture of several, which the sample's channel means decide."""

from oracle.maps import convolution, mean, of_one
from oracle.multihead import linear, softmax


def dynamic_mixture(maps, reduce, widen, weights, biases, temperature, stride=1, padding=0, dilation=1, groups=1):
    """maps (C, h, w); weights (K, O, C/groups, k, k), biases (K, O) → (O, h′, w′)."""
    hidden = [max(0.0, number) for number in linear([mean(channel) for channel in maps], *reduce)]
    shares = softmax([number / temperature for number in linear(hidden, *widen)])
    return convolution(maps, mixed(weights, shares), mixed(biases, shares), padding, stride, dilation, groups)


def mixed(kernels, shares):
    """Σ_k share_k · kernel_k of nested lists of one shape."""
    if isinstance(kernels[0], float):
        return sum(share * kernel for share, kernel in zip(shares, kernels, strict=True))
    return [mixed(parts, shares) for parts in zip(*kernels, strict=True)]


def like(module, maps):
    biases = [[0.0] * module.out_width] * module.kernels if module.bias is None else module.bias.tolist()
    weights = of_one(module.reduce), of_one(module.widen), module.weight.tolist(), biases, module.temperature.item()
    sizes = module.stride, module.padding, module.dilation, module.groups
    return [dynamic_mixture(sample, *weights, *sizes) for sample in maps.tolist()]
