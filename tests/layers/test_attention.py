import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from layers.carry import near
from oracle.attention import attention as oracle
from torch import nn

from foveal.core import observe
from foveal.core.pattern.causal import causal
from foveal.core.pattern.padding import padding
from foveal.core.score.cosine import cosine
from foveal.core.score.dot import dot
from foveal.errors import FovealError
from foveal.layers.attention import Attention


def tokens(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Distance(nn.Module):
    """A score with a weight: minus the learned distance."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.7, dtype=torch.float64))

    def forward(self, q, k):
        return -self.scale * (q[:, :, :, None] - k[:, :, None]).square().sum(-1)


def test_by_hand():
    # Scores 0 and ln 3: weights 1/4 and 3/4.
    query, memory = torch.tensor([[[1.0]]]), torch.tensor([[[0.0], [math.log(3)]]])
    assert math.isclose(Attention(dot)(query, memory).item(), 0.75 * math.log(3), rel_tol=1e-6)


@pytest.mark.parametrize("score", [dot, Distance()], ids=["function", "module"])
def test_it_is_the_oracle_with_any_score(score):
    query, memory = tokens(3, 5, 7), tokens(3, 11, 7, seed=2)

    def alone(a, b):
        return score(*(torch.tensor(x, dtype=torch.float64).view(1, 1, 1, -1) for x in (a, b))).item()

    got = Attention(score)(query, memory, mask=causal)
    want = [
        oracle(one, two, alone, lambda i, j: j <= i) for one, two in zip(query.tolist(), memory.tolist(), strict=True)
    ]
    assert near(got, torch.tensor(want, dtype=torch.float64))


def test_torch_is_a_witness():
    query, memory = tokens(3, 5, 7), tokens(3, 11, 7, seed=2)
    want = F.scaled_dot_product_attention(query[:, None], memory[:, None], memory[:, None])[:, 0]
    assert near(Attention()(query, memory), want)
    assert near(
        Attention()(query), F.scaled_dot_product_attention(query[:, None], query[:, None], query[:, None])[:, 0]
    )


def test_a_module_is_a_part_whose_weights_learn():
    layer = Attention(Distance())
    assert list(layer.state_dict()) == ["score.scale"]
    layer(tokens(2, 5, 7)).square().sum().backward()
    assert layer.score.scale.grad.abs() > 0


@given(st.lists(st.integers(0, 11), min_size=3, max_size=3))
def test_what_is_hidden_does_not_matter(lengths):
    query, memory = tokens(3, 5, 7), tokens(3, 11, 7, seed=2)
    other = memory.clone()
    for sample, length in enumerate(lengths):
        other[sample, length:] = 99.0
    layer = Attention(cosine)
    y = layer(query, memory, mask=padding(lengths))
    assert near(y, layer(query, other, mask=padding(lengths)))
    for sample, length in enumerate(lengths):
        assert y[sample].eq(0).all() == (length == 0)


def test_a_tensor_is_a_mask_too():
    query, memory = tokens(3, 5, 7), tokens(3, 11, 7, seed=2)
    kept = torch.arange(11) < torch.tensor([3, 11, 0])[:, None]
    assert near(
        Attention()(query, memory, mask=kept[:, None, None]), Attention()(query, memory, mask=padding([3, 11, 0]))
    )
    assert near(Attention()(query, memory, mask=causal.dense(5, 11)), Attention()(query, memory, mask=causal))


def test_dropout_falls_on_the_weights_and_only_in_training():
    layer, x = Attention(dropout=0.5), torch.ones(2, 5, 7)
    torch.manual_seed(0)
    assert layer(x).unique().numel() > 1
    layer.eval()
    assert torch.allclose(layer(x), x)


def test_its_weights_can_be_seen():
    query, memory, seen = tokens(3, 5, 7), tokens(3, 11, 7, seed=2), []
    observe.observers.append(seen.append)
    try:
        y = Attention(cosine)(query, memory)
    finally:
        observe.observers.pop()
    alpha = seen[0].rows(torch.arange(5))
    assert alpha.shape == (3, 1, 5, 11)
    assert near(alpha[:, 0] @ memory, y)


def test_bad_input():
    query, memory = tokens(3, 5, 7), tokens(3, 11, 7, seed=2)
    with pytest.raises(FovealError, match=r"Attention's query: expected \(B, N, C\), got \(5, 7\)"):
        Attention()(query[0], memory)
    with pytest.raises(FovealError, match="k: expected width 7 as q"):
        Attention()(query, memory[..., 1:])
    with pytest.raises(
        FovealError, match=r"Attention's score: expected e of shape \(3, 1, 5, 11\), got \(3, 1, 5, 1\)"
    ):
        Attention(lambda q, k: q.sum(-1, keepdim=True))(query, memory)
    with pytest.raises(FovealError, match="Attention's score: expected a function or a module"):
        Attention(dot(query[:, None], memory[:, None]))
    with pytest.raises(FovealError, match="Attention's dropout: expected at least 0 and below 1, got 1"):
        Attention(dropout=1)
    # (B, N, M) has no axis of heads: taken for (H, N, M), it would mix the samples up.
    with pytest.raises(
        FovealError, match=r"mask: expected \(N, M\) or \(B, H, N, M\), got \(3, 5, 11\); one for each sample is"
    ):
        Attention()(query, memory, mask=torch.ones(3, 5, 11, dtype=torch.bool))
    with pytest.raises(
        FovealError, match=r"mask: expected \(3, 1, 5, 11\), got \(1, 3, 5, 11\); these layers have one head"
    ):
        Attention()(query, memory, mask=torch.ones(1, 3, 5, 11, dtype=torch.bool))
    with pytest.raises(FovealError, match="mask: expected a mask or a boolean tensor, got str"):
        Attention()(query, memory, mask="causal")
