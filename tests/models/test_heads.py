"""Heads removed from any model with multi-head layers: as if they gave 0, in smaller matrices,
in files like all others.
"""

import copy

import pytest
import torch
from cards import classify_card
from torch import nn

from foveal.errors import FovealError
from foveal.layers.multihead import MultiHead
from foveal.models.heads import head_layers, head_weights, remove_heads, without_heads
from foveal.models.store import describe, load_model, save_model, shapes_of
from foveal.models.zoo import create
from foveal.tasks.classify.card import ClassifyCard


def icam(**settings):
    torch.manual_seed(0)
    model = create("icam-31k", classes=3, image=28, patch=7, heads=4, layers=3, **settings)
    model.train()(torch.randn(5, 3, 28, 28))  # so that BatchNorm has seen something
    return model.eval()


def some_images():
    return torch.randn(5, 3, 28, 28, generator=torch.Generator().manual_seed(1))


REMOVED = [{0: [1]}, {0: [0, 3], 2: [1, 2, 3]}, {1: [3, 3]}, {0: [0, 1, 2], 1: [1, 2, 3], 2: [0, 1, 3]}]


@pytest.mark.parametrize("heads", REMOVED)
@torch.no_grad()
def test_an_icam_without_heads_is_one_whose_heads_give_0(heads):
    whole = icam().double()
    fewer = copy.deepcopy(whole)
    remove_heads(fewer, heads)
    images = some_images().double()
    with without_heads(whole, heads):
        masked = whole(images)
    torch.testing.assert_close(fewer(images), masked, rtol=0, atol=1e-12)
    assert (whole(images) - masked).abs().max() > 1e-4, "they were worth something, and are back"
    counts = [layer.heads for layer in head_layers(fewer)]
    assert counts == [4 - len(set(heads.get(place, ()))) for place in range(3)]
    for layer in head_layers(fewer):
        assert layer.q.weight.shape == (6 * layer.heads, 24)
        assert layer.kv.weight.shape == (12 * layer.heads, 24)
        assert layer.out.weight.shape == (24, 6 * layer.heads)


@torch.no_grad()
def test_masking_is_by_hand_the_columns_of_the_last_matrix():
    whole = icam()
    silenced = copy.deepcopy(whole)
    silenced.layers[1].attention.layer.out.weight[:, 6:12] = 0
    with without_heads(whole, {1: [1]}):
        torch.testing.assert_close(whole(some_images()), silenced(some_images()), rtol=0, atol=1e-6)


@torch.no_grad()
def test_a_stack_of_self_attention_in_which_heads_share_keys():
    torch.manual_seed(0)
    blocks = nn.Sequential(*(MultiHead(12, 6, groups=groups) for groups in (6, 3, 1))).double().eval()
    fewer, x = copy.deepcopy(blocks), torch.randn(2, 5, 12, dtype=torch.float64)
    heads = {0: [4], 1: [0, 1, 3, 5], 2: [0, 2, 5]}
    remove_heads(fewer, heads)
    with without_heads(blocks, heads):
        torch.testing.assert_close(fewer(x), blocks(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("key_width", [None, 5])
@torch.no_grad()
def test_the_weights_of_heads_that_share_keys_are_those_of_their_group(key_width):
    layer = MultiHead(12, 6, groups=2, key_width=key_width)  # heads 0 to 2 read the first keys, 3 to 5 the second
    queries, pairs = torch.arange(6.0).repeat_interleave(2), torch.arange(10.0, 14.0).repeat_interleave(2)
    if layer.qkv is None:
        layer.q.weight.copy_(queries[:, None].expand(12, 12))
        layer.kv.weight.copy_(pairs[:, None].expand(8, 5))
    else:
        layer.qkv.weight.copy_(torch.cat([queries, pairs])[:, None].expand(20, 12))
    layer.out.weight.copy_((20 + queries).expand(12, 12))
    found = [set(row.tolist()) for row in head_weights(layer)]
    assert found == [{0, 1, 2, 10, 12, 20, 21, 22}, {3, 4, 5, 11, 13, 23, 24, 25}]


def test_a_model_without_heads_is_saved_opened_and_trained(tmp_path):
    model = icam()
    remove_heads(model, {0: [0, 1, 3], 2: [2]})
    family, config = describe(model)
    file = tmp_path / "m.safetensors"
    save_model(model, file, classify_card("some", family, config, ("a", "b", "c"), size=28, shapes=shapes_of(model)))
    opened, _ = load_model(file, ClassifyCard)
    assert [layer.heads for layer in head_layers(opened)] == [1, 4, 3]
    assert [layer.groups for layer in head_layers(opened)] == [1, 4, 3]
    torch.testing.assert_close(opened(some_images()), model(some_images()), rtol=0, atol=1e-6)
    opened.train()(some_images()).sum().backward()
    assert all(weight.grad is not None for weight in opened.parameters())


@pytest.mark.parametrize(
    ("heads", "words"),
    [
        ({0: [0, 1, 2, 3]}, "the heads of layer 0: expected at least one of 4 left, got none left"),
        ({1: [4]}, "a head of layer 1: expected 0 to 3, got 4"),
        ({1: [-1]}, "a head of layer 1: expected 0 to 3, got -1"),
        ({3: [0]}, "a layer with heads: expected 0 to 2, got 3"),
        ([0, 1], "expected {layer: its heads}, such as {0: [1]}, got [0, 1]"),
    ],
)
def test_heads_that_are_not_there(heads, words):
    model = icam()
    for use in (remove_heads, lambda model, heads: without_heads(model, heads).__enter__()):
        with pytest.raises(FovealError) as caught:
            use(model, heads)
        assert words in str(caught.value)
    assert [layer.heads for layer in head_layers(model)] == [4, 4, 4]


def test_a_model_without_multi_head_layers():
    with pytest.raises(
        FovealError, match="expected a model with multi-head layers of foveal's, got Linear, which has none"
    ):
        remove_heads(nn.Linear(2, 2), {0: [0]})
