"""The attention gate by hand, and beside MONAI's.

What holds for all modules: tests/test_every.py.
"""

import pytest
import torch
from case import error
from torch import nn
from torch.nn import functional

from foveal.errors import FovealError
from foveal.vision.attention_gate import AttentionGate


def by_hand():
    """One channel of each: W_x = 1, W_g = ln 3, b_g = 0, ψ = 1, b_ψ = −ln 3."""
    module = AttentionGate(1, 1, hidden=1).double()
    log = torch.tensor(3.0, dtype=torch.float64).log()
    with torch.no_grad():
        for weight, number in zip(module.parameters(), (1, log, 0, 1, -log), strict=True):
            weight.fill_(number)
    return module


def test_by_hand():
    # The squares of x have means 0 and 0, g is 2 and −5: δ gives 2 ln 3 and 0, gates σ(ln 3) = 3/4 and σ(−ln 3) = 1/4.
    # Between the middles 0.5 and 2.5 of the two cells runs a line, beyond them it is flat: 3/4, 5/8, 3/8, 1/4.
    x = torch.tensor([[[[-8.0, 8.0, 8.0, 8.0], [8.0, -8.0, -8.0, -8.0]]]], dtype=torch.float64)
    y = by_hand()(x, torch.tensor([[[[2.0, -5.0]]]], dtype=torch.float64))
    assert error(y, torch.tensor([[[[-6.0, 5.0, 3.0, 2.0], [6.0, -5.0, -3.0, -2.0]]]], dtype=torch.float64)) < 1e-12


def test_the_map_counts_as_well():
    # Squares with means ln 9 and 0, and a signal of 0: gates 3/4 and 1/4.
    nine = torch.tensor(9.0, dtype=torch.float64).log()
    x = torch.stack([nine, nine, 0 * nine, 0 * nine]).expand(1, 1, 2, 4)
    y = by_hand()(x, torch.zeros(1, 1, 1, 2, dtype=torch.float64))
    assert error(y, x * torch.tensor([0.75, 0.625, 0.375, 0.25])) < 1e-12


def test_half_the_side_is_the_mean_of_squares():
    gate, maps, signal = AttentionGate(5, 3), torch.randn(2, 5, 6, 14), torch.randn(2, 3, 3, 7)
    small = torch.relu(gate.from_maps(functional.avg_pool2d(maps, 2)) + gate.from_signal(signal))
    alpha = nn.Upsample((6, 14), mode="bilinear")(torch.sigmoid(gate.score(small)))
    assert error(gate(maps, signal), maps * alpha) < 1e-6


@pytest.mark.parametrize("grid", [(7, 11), (3, 5)])
def test_it_equals_monai(grid):
    from monai.networks.nets.attentionunet import AttentionBlock

    theirs = AttentionBlock(spatial_dims=2, f_int=4, f_g=3, f_l=5)
    for norm in (part for part in theirs.modules() if isinstance(part, nn.BatchNorm2d)):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    theirs.eval()
    ours = AttentionGate(5, 3, hidden=4)
    weight, offset = folded(theirs.W_x)
    ours.from_maps.weight.data = weight
    ours.from_signal.weight.data, ours.from_signal.bias.data = folded(theirs.W_g)
    ours.from_signal.bias.data += offset  # MONAI's W_x has one of its own
    ours.score.weight.data, ours.score.bias.data = folded(theirs.psi)
    maps, signal = torch.randn(2, 5, 7, 11), torch.randn(2, 3, *grid)
    fine = functional.interpolate(signal, (7, 11), mode="bilinear")
    assert error(ours(maps, fine), theirs(g=fine, x=maps)) < 1e-5


def folded(sequence):
    """A convolution and the batch norm after it as one weight and one bias."""
    convolution = next(part for part in sequence.modules() if isinstance(part, nn.Conv2d))
    norm = next(part for part in sequence.modules() if isinstance(part, nn.BatchNorm2d))
    gain = norm.weight / (norm.running_var + norm.eps).sqrt()
    return (
        (convolution.weight * gain[:, None, None, None]).detach(),
        ((convolution.bias - norm.running_mean) * gain + norm.bias).detach(),
    )


def test_the_gate_is_a_part():
    hard = AttentionGate(5, 3, gate=nn.Hardsigmoid(), activation=nn.SiLU())
    with torch.no_grad():
        hard.score.weight.zero_()
        hard.score.bias.fill_(-3.0)
    y = hard(torch.randn(2, 5, 7, 11), torch.randn(2, 3, 3, 5))
    assert error(y, torch.zeros(2, 5, 7, 11)) == 0  # where a sigmoid lets 5 % pass


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: AttentionGate(0, 3), "AttentionGate's width: expected an integer, at least 1, got 0"),
        (lambda: AttentionGate(5, "3"), "AttentionGate's signal_width: expected an integer, at least 1, got '3'"),
        (lambda: AttentionGate(5, 3, hidden=0), "hidden: expected an integer, at least 1, got 0"),
        (lambda: AttentionGate(5, 3, gate=nn.Sigmoid), "gate: expected a module"),
        (lambda: call(maps=(2, 3, 7, 11)), "AttentionGate's maps: expected (B, 5, h, w), got (2, 3, 7, 11)"),
        (lambda: call(signal=(2, 5, 3, 5)), "AttentionGate's signal: expected (B, 3, h, w), got (2, 5, 3, 5)"),
        (lambda: call(signal=(2, 3, 0, 5)), "AttentionGate's signal: expected (B, 3, h, w), got (2, 3, 0, 5)"),
        (lambda: call(signal=(1, 3, 3, 5)), "AttentionGate's signal: expected a batch of 2, as the maps, got 1"),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(FovealError) as caught:
        call()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def call(maps=(2, 5, 7, 11), signal=(2, 3, 3, 5)):
    return AttentionGate(5, 3)(torch.rand(maps), torch.rand(signal))
