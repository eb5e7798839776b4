"""A trained linear map in the form in which one CPU thread computes it fastest: packed, transposed, or in eight bits.

    y = x Wᵀ + b;      int8:  y_r = s_r · (Q(x_r / s_r) W_int8ᵀ) ⊙ t + b,   s_r = max |x_r|,   t_o = max |W_o| / 127

Symbols: r a row of x, o an output, Q rounding to eight bits, t the scale of an output's weights.

A step of decoding has one row, or a few, and waits for the weights to come from memory. What one thread of an AMD EPYC
takes for W of 2048 × 512, in µs, a dozen matrices in turn:

    rows                                     1      4      32     128
    F.linear                                 478    571    1607
    W stored transposed, addmm               224    641    1523
    packed by oneDNN (torch.ops.mkldnn)      321    247    922
    int8, fbgemm, the whole x has one scale  70     61     228    889
    int8, fbgemm, each row has its own       74     70     331    945
    int8, oneDNN, uint8, each row its own    133    139    298    841

The machine was busy: fp32 is of the clock, int8 of processor time. Of 512 × 512 and one row, oneDNN with int8 rows
took 7,087 µs and _weight_int8pack_mm, int8 weights and float32 rows, 237, where fbgemm took 22.

So one row takes W transposed where it has more outputs than inputs and as it is elsewhere, more rows take it packed,
and eight bits are fbgemm's. fbgemm knows one scale for all of x: a row is divided by its own before, and multiplied
after, as a linear map lets it be. With the scale of the loudest row, the others would be rounded more coarsely, and a
sentence would depend on those beside it. What torch has of this is not promised for ever: each form is tried before it
is used, and F.linear takes the place of what is missing.
"""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from foveal.errors import FovealError

Linear = Callable[[Tensor], Tensor]  # (R, in) → (R, out)
HINT = 32  # rows that oneDNN packs for; as good for 4 and for 128


def linear(weight: Tensor, bias: Tensor | None, rows: int, precision: str, positive: bool = False) -> Linear:
    """W (out, in) and b (out,), for so many rows at a time. precision: "fp32" or "int8". positive:
    x has no negative numbers.
    """
    weight, bias = weight.detach(), None if bias is None else bias.detach()
    if precision == "int8":
        return eight_bit(weight, bias, rows, positive)
    if rows == 1:
        return transposed(weight, bias) if weight.shape[0] > weight.shape[1] else plain(weight, bias)
    return packed(weight, bias) if can_pack() else plain(weight, bias)


def plain(weight: Tensor, bias: Tensor | None) -> Linear:
    return lambda x: functional.linear(x, weight, bias)


def transposed(weight: Tensor, bias: Tensor | None) -> Linear:
    turned = weight.T.contiguous()
    if bias is None:
        return lambda x: torch.mm(x, turned)
    return lambda x: torch.addmm(bias, x, turned)


def packed(weight: Tensor, bias: Tensor | None) -> Linear:
    """In the blocks that oneDNN computes with."""
    with torch.inference_mode(False), torch.no_grad():  # oneDNN's own tensors cannot be made in inference mode
        blocks = torch.ops.mkldnn._reorder_linear_weight(weight.clone(), HINT)
    apply = torch.ops.mkldnn._linear_pointwise.default
    return lambda x: apply(x, blocks, bias, "none", [], "")


def eight_bit(weight: Tensor, bias: Tensor | None, rows: int, positive: bool = False) -> Linear:
    blocks = _eight_bit_blocks(weight, bias if rows == 1 else None)
    apply = torch.ops.quantized.linear_dynamic.default
    if rows == 1:
        return lambda x: apply(x, blocks, False)

    def by_rows(x: Tensor) -> Tensor:
        # torch's norm of infinity takes ten times as long
        loudest = (x if positive else x.abs()).amax(1, keepdim=True).clamp_min_(1e-30)
        y: Tensor = apply(x / loudest, blocks, False)
        # in place: new memory costs more than the pass
        return y.mul_(loudest) if bias is None else torch.addcmul(bias, y, loudest, out=y)

    return by_rows


def _eight_bit_blocks(weight: Tensor, bias: Tensor | None) -> object:
    if not can_quantise():
        raise FovealError("int8: expected a torch for x86 with fbgemm's linear_dynamic, got one without; use fp32")
    outputs = weight.shape[0]
    scales = weight.abs().amax(1).double().clamp_min(1e-30) / 127
    engine = torch.backends.quantized.engine
    with warnings.catch_warnings(), torch.inference_mode(False), torch.no_grad():
        warnings.simplefilter("ignore")  # torch is going to build such tensors in another way
        eighths = torch.quantize_per_channel(
            weight.float().clone(), scales, torch.zeros(outputs, dtype=torch.int64), 0, torch.qint8
        )
        try:
            torch.backends.quantized.engine = "fbgemm"
            return torch.ops.quantized.linear_prepack(eighths, None if bias is None else bias.float().clone())
        finally:
            torch.backends.quantized.engine = engine


def can_pack() -> bool:
    names = ("_reorder_linear_weight", "_linear_pointwise")
    return torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in names)


def can_quantise() -> bool:
    known = "fbgemm" in torch.backends.quantized.supported_engines
    return known and all(hasattr(torch.ops.quantized, name) for name in ("linear_prepack", "linear_dynamic"))
