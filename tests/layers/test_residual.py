import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layers.carry import near, pair, scatter
from oracle.multihead import linear
from oracle.residual import residual
from torch import nn

from foveal.errors import FovealError
from foveal.layers.multihead import MultiHead
from foveal.layers.residual import Plain, PlainPostNorm, PlainPreNorm, PostNorm, PreNorm, Residual

KINDS = {"none": Residual, "pre": PreNorm, "post": PostNorm}


def tokens(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_by_hand():
    double = nn.Linear(2, 2, bias=False)
    double.weight.data = 2 * torch.eye(2)
    x = torch.tensor([[1.0, 5.0]])  # its LayerNorm is (−1, 1), and so is that of 3·x
    assert Residual(double, 2)(x).tolist() == [[3, 15]]
    assert torch.allclose(PreNorm(double, 2)(x), torch.tensor([[-1.0, 7.0]]), atol=1e-5)
    assert torch.allclose(PostNorm(double, 2)(x), torch.tensor([[-1.0, 1.0]]), atol=1e-5)


def test_without_the_sum_by_hand():
    double = nn.Linear(2, 2, bias=False)
    double.weight.data = 2 * torch.eye(2)
    x = torch.tensor([[1.0, 5.0]])
    assert Plain(double, 2)(x).tolist() == [[2, 10]]
    assert torch.allclose(PlainPreNorm(double, 2)(x), torch.tensor([[-2.0, 2.0]]), atol=1e-5)
    assert torch.allclose(PlainPostNorm(double, 2)(x), torch.tensor([[-1.0, 1.0]]), atol=1e-5)


@pytest.mark.parametrize(("plain", "kind"), [(Plain, Residual), (PlainPreNorm, PreNorm), (PlainPostNorm, PostNorm)])
def test_without_the_sum_only_the_sum_is_gone(plain, kind):
    x = tokens(2, 5, 7)
    less, more = (scatter(each(nn.Linear(7, 7), 7).double()) for each in (plain, kind))
    assert less.state_dict().keys() == more.state_dict().keys()
    if kind is PostNorm:
        less.norm = more.norm = nn.Identity()
    assert near(less(x) + x, more(x))


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_oracle(kind):
    block = scatter(KINDS[kind](nn.Linear(7, 7), 7).double())
    norm = pair(block.norm) if kind != "none" else ()
    x = tokens(2, 5, 7)
    weights = pair(block.layer)
    expected = [
        residual(token, lambda numbers: linear(numbers, *weights), kind, *norm) for token in x.flatten(0, 1).tolist()
    ]
    assert near(block(x).flatten(0, 1), torch.tensor(expected, dtype=torch.float64), 1e-9)


@settings(max_examples=25, deadline=None)
@given(scale=st.floats(1, 10), shift=st.floats(-10, 10))
def test_post_norm_forgets_the_scale_of_its_sum_and_pre_norm_that_of_what_the_layer_sees(scale, shift):
    layer = scatter(nn.Linear(7, 7).double())
    x = tokens(2, 5, 7)
    still = nn.Linear(7, 7).double()
    nn.init.zeros_(still.weight)
    nn.init.zeros_(still.bias)
    post, pre = PostNorm(still, 7).double(), PreNorm(layer, 7).double()
    assert near(post(scale * x + shift), post(x), 1e-3)
    moved = scale * x + shift
    assert near(pre(moved) - moved, pre(x) - x, 1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_what_else_the_layer_takes_is_passed_through(kind):
    block = scatter(KINDS[kind](MultiHead(12, 3, key_width=5), 12).double())
    x, memory = tokens(2, 7, 12), tokens(2, 3, 5)
    mask = torch.tensor([[True, False, True]])
    inside = block.norm(x) if kind == "pre" else x
    y = x + block.layer(inside, memory, mask=mask)
    assert near(block(x, memory, mask=mask), block.norm(y) if kind == "post" else y)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_falls_on_the_change_only_and_is_off_in_evaluation(kind):
    torch.manual_seed(0)
    block = KINDS[kind](nn.Linear(7, 7), 7, dropout=0.5).double()
    x = tokens(2, 5, 7)
    nn.init.zeros_(block.layer.weight)
    nn.init.ones_(block.layer.bias)
    if kind != "post":
        assert set((block(x) - x).round(decimals=9).flatten().tolist()) == {0.0, 2.0}
    assert not near(block(x), block(x))
    block.eval()
    assert near(block(x), block(x))
    if kind != "post":
        assert near(block(x), x + 1)


def test_compiles_and_knows_bfloat16():
    for kind in KINDS.values():
        block, x = kind(nn.Linear(7, 7), 7), tokens(2, 5, 7).float()
        assert near(torch.compile(block, fullgraph=True, backend="eager")(x), block(x), 1e-6)
        assert block.bfloat16()(x.bfloat16()).dtype == torch.bfloat16


def test_bad_input():
    with pytest.raises(FovealError, match="PreNorm's width: expected at least 1, got 0"):
        PreNorm(nn.Linear(7, 7), 0)
    with pytest.raises(FovealError, match="PostNorm's dropout: expected at least 0 and below 1, got 2"):
        PostNorm(nn.Linear(7, 7), 7, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_stochastic_depth_leaves_the_layer_out_for_whole_samples(kind):
    torch.manual_seed(0)
    block = scatter(KINDS[kind](nn.Linear(7, 7), 7, drop_path=0.4).double())
    x = tokens(997, 2, 3, 7)
    if kind == "post":
        block.norm = nn.Identity()
    change = block.eval()(x) - x
    ratio = (block.train()(x) - x) / change  # 0, or 1/(1 − p)
    each = ratio.flatten(1)
    assert near(each, each[:, :1].expand_as(each), 1e-9), "one number for each sample"
    left = each[:, 0] > 1
    assert near(each[left], torch.full_like(each[left], 1 / 0.6), 1e-9)
    assert near(each[~left], torch.zeros_like(each[~left]), 1e-9)
    assert left.double().mean().item() == pytest.approx(0.6, abs=0.05)


def test_a_bad_rate_of_stochastic_depth():
    with pytest.raises(FovealError, match=r"PreNorm's drop_path: expected at least 0 and below 1, got 1\.0"):
        PreNorm(nn.Linear(7, 7), 7, drop_path=1.0)
