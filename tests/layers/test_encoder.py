import pytest
import torch
from layers.carry import fill_from_torch, near, pair, parts, scatter
from oracle.encoder import encoder
from torch import nn

from foveal.core.pattern.causal import causal
from foveal.core.pattern.padding import padding
from foveal.errors import FovealError
from foveal.layers.encoder import Encoder
from foveal.layers.feed_forward import FeedForward
from foveal.layers.multihead import MultiHead
from foveal.layers.residual import PostNorm, PreNorm, Residual
from foveal.layers.windowed import Windowed
from foveal.position.rotary import Rotary


def tokens(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def block(norm, dropout=0.0, **options):
    return scatter(Encoder(MultiHead(12, 3, **options), FeedForward(12, 17), norm=norm, dropout=dropout).double())


def test_by_hand():
    # Both layers answer 0: what is left is x (pre), or its LayerNorm, taken twice (post). The LayerNorm of (1, 5) is
    # (−1, 1).
    for norm, expected in ((PreNorm, [1.0, 5.0]), (PostNorm, [-1.0, 1.0]), (Residual, [1.0, 5.0])):
        whole = Encoder(MultiHead(2, 1), FeedForward(2, 3), norm=norm)
        for linear in (whole.attention.layer.out, whole.feed_forward.layer.outer):
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(linear.bias)
        assert torch.allclose(whole(torch.tensor([[[1.0, 5.0]]])), torch.tensor([[expected]]), atol=1e-5)


@pytest.mark.parametrize("norm", [PreNorm, PostNorm])
def test_it_is_the_oracle(norm):
    whole = block(norm)
    x = tokens(2, 5, 12)
    attention, network = whole.attention.layer, whole.feed_forward.layer
    rest = (
        3,
        pair(network.inner),
        pair(network.outer),
        (pair(whole.attention.norm), pair(whole.feed_forward.norm)),
        norm is PreNorm,
    )
    for mask, keeps in ((None, None), (causal, lambda i, j: j <= i)):
        expected = [encoder(sample, parts(attention), *rest, keeps) for sample in x.tolist()]
        assert near(whole(x, mask=mask), torch.tensor(expected, dtype=torch.float64), 1e-9)


@pytest.mark.parametrize("norm_first", [False, True])
def test_witness_torch(norm_first):
    theirs = nn.TransformerEncoderLayer(12, 3, 17, dropout=0.0, batch_first=True, norm_first=norm_first)
    theirs = scatter(theirs.double().train())
    ours = block(PreNorm if norm_first else PostNorm)
    fill_from_torch(ours.attention.layer, theirs.self_attn)
    ours.feed_forward.layer.inner.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.layer.outer.load_state_dict(theirs.linear2.state_dict())
    ours.attention.norm.load_state_dict(theirs.norm1.state_dict())
    ours.feed_forward.norm.load_state_dict(theirs.norm2.state_dict())
    x = tokens(2, 5, 12)
    assert near(ours(x), theirs(x))
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    assert near(ours(x, mask=padding([5, 3])), theirs(x, src_key_padding_mask=hidden))


def test_any_layer_that_keeps_the_shape_may_attend():
    whole = scatter(Encoder(Windowed(12, 3, window=2, shift=1), FeedForward(12, 17), norm=PreNorm).double())
    x = tokens(2, 5, 7, 12)
    middle = x + whole.attention.layer(whole.attention.norm(x))
    assert near(whole(x), middle + whole.feed_forward.layer(whole.feed_forward.norm(middle)))
    plain = Encoder(nn.Linear(12, 12), nn.Linear(12, 12), width=12).double()
    assert plain(x).shape == x.shape


def test_step_by_step_it_is_the_full_pass():
    whole = block(PreNorm, mask=causal, position=Rotary(4))
    x = tokens(2, 7, 12)
    with torch.no_grad():
        cache = whole.attention.layer.new_cache(2, 7)
        assert near(torch.cat([whole(part, cache=cache) for part in x.split([3, 1, 1, 2], 1)], 1), whole(x))


def test_dropout_is_off_in_evaluation():
    torch.manual_seed(0)
    whole, plain = block(PreNorm, dropout=0.5), block(PreNorm)
    x = tokens(2, 5, 12)
    assert whole.attention.dropout == whole.feed_forward.dropout == 0.5
    assert not near(whole(x), whole(x))
    assert torch.equal(whole.eval()(x), plain(x))


@pytest.mark.parametrize("norm", [PreNorm, PostNorm, Residual])
def test_compile_gradients_and_bfloat16(norm):
    torch.compiler.reset()
    whole, x = block(norm, mask=causal), tokens(2, 5, 12)
    assert near(torch.compile(whole, fullgraph=True, backend="eager")(x), whole(x))
    whole(x).square().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in whole.parameters())
    assert whole.bfloat16()(x.bfloat16()).dtype == torch.bfloat16


def test_bad_input():
    with pytest.raises(FovealError, match="expected one width, got MultiHead 12, FeedForward 10; give width="):
        Encoder(MultiHead(12, 3), FeedForward(10, 17))
    with pytest.raises(FovealError, match="expected one width, got Linear None, Linear None; give width="):
        Encoder(nn.Linear(12, 12), nn.Linear(12, 12))
    with pytest.raises(FovealError, match="got MultiHead 12, FeedForward 12 and width=11"):
        Encoder(MultiHead(12, 3), FeedForward(12, 17), width=11)
    with pytest.raises(FovealError, match=r"expected \(B, N, 12\)"):
        Encoder(MultiHead(12, 3), FeedForward(12, 17), norm=Residual)(torch.zeros(2, 5, 11))
