"""How much a head matters: by hand where one layer is the whole model, and in an order that planted heads give."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from foveal.errors import FovealError
from foveal.explain.heads import importance_by_gradient, importance_by_masking, least
from foveal.layers.multihead import MultiHead
from foveal.models.zoo import create


class Mean(nn.Module):
    """One attention layer as a classifier."""

    def __init__(self, **options):
        super().__init__()
        torch.manual_seed(0)
        self.attention = MultiHead(6, 3, head_width=5, **options).double()

    def forward(self, tokens):
        return self.attention(tokens, tokens if self.attention.qkv is None else None).mean(1)


def loss(model, batch):
    tokens, truth = batch
    return (
        F.cross_entropy(model(tokens), truth)
        if truth.dim() == 1
        else F.binary_cross_entropy_with_logits(model(tokens), truth.float())
    )


def each(tokens, truth):
    """One sample per batch."""
    return list(zip(tokens.split(1), truth.split(1), strict=True))


def data(count=7):
    torch.manual_seed(1)
    return torch.randn(count, 4, 6, dtype=torch.float64), torch.arange(count) % 6


@pytest.mark.parametrize("options", [{}, {"groups": 1}, {"key_width": 6}, {"key_width": 6, "groups": 1}])
def test_the_gradient_by_hand(options):
    model, (tokens, truth) = Mean(**options), data()
    found = importance_by_gradient(model, each(tokens, truth), loss)
    layer, expected = model.attention, torch.zeros(3, dtype=torch.float64)
    groups = layer.groups
    for one, true in zip(tokens, truth, strict=True):
        model.zero_grad()
        F.cross_entropy(model(one[None]), true[None]).backward()
        parts = (layer.qkv,) if layer.qkv is not None else (layer.q, layer.kv)
        inner = torch.cat([(part.weight.grad * part.weight).abs().sum(1) for part in parts])  # rows of q, of k, of v
        outer = (layer.out.weight.grad * layer.out.weight).abs().sum(0)
        for head in range(3):
            group = 0 if groups == 1 else head
            for block in (head, 3 + group, 3 + groups + group):
                expected[head] += inner[5 * block : 5 * block + 5].sum().detach() / 7
            expected[head] += outer[5 * head : 5 * head + 5].sum().detach() / 7
    torch.testing.assert_close(found[0], expected)


@torch.no_grad()
def test_masking_by_hand():
    model, (tokens, truth) = Mean(), data()
    found = importance_by_masking(model, each(tokens, truth), loss)
    before = F.cross_entropy(model(tokens), truth)
    for head in range(3):
        kept = model.attention.out.weight.clone()
        model.attention.out.weight[:, 5 * head : 5 * head + 5] = 0
        torch.testing.assert_close(found[0][head], F.cross_entropy(model(tokens), truth) - before)
        model.attention.out.weight.copy_(kept)


@pytest.mark.parametrize("measure", [importance_by_gradient, importance_by_masking])
@pytest.mark.parametrize("multi_label", [False, True])
def test_a_head_that_says_nothing_matters_least_and_the_model_is_left_as_it_was(measure, multi_label):
    torch.manual_seed(0)
    model = create("icam-31k", classes=3, image=28, patch=7, heads=4).train()
    model.layers[1].attention.layer.out.weight.data[:, 12:18] = 0
    model.layers[1].attention.layer.kv.weight.data[24 + 12 : 24 + 18] = 0
    model.layers[0].attention.layer.q.weight.requires_grad_(False)
    truth = torch.randint(0, 2, (4, 3)) if multi_label else torch.tensor([0, 1, 2, 1])
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = measure(model, each(torch.randn(4, 3, 28, 28), truth), loss)
    assert [len(layer) for layer in found] == [4, 4]
    assert found[1][2] == pytest.approx(0, abs=1e-12)
    if measure is importance_by_gradient:
        assert least(found, 1) == {1: [2]}
    assert model.training
    assert not model.layers[0].attention.layer.q.weight.requires_grad
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())


def test_the_least_of_all_layers_but_one_is_left_in_each():
    importance = [torch.tensor([0.1, 0.2, 0.3]), torch.tensor([5.0]), torch.tensor([0.4, -1.0])]
    assert least(importance, 1) == {2: [1]}
    assert least(importance, 2) == {2: [1], 0: [0]}
    assert least(importance, 3) == {2: [1], 0: [0, 1]}
    for count in (0, 4, 1.5):
        with pytest.raises(FovealError, match="how many heads to remove: expected 1 to 3"):
            least(importance, count)
