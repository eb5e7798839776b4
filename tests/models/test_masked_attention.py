"""Masked attention: queries that look where their last mask is, against transformers' Mask2Former and plain loops."""

import pytest
import torch
from models.witness import spread
from oracle.feed_forward import feed_forward
from oracle.multihead import multihead, pair, parts
from oracle.residual import layer_norm
from torch import nn
from torch.nn import functional as F

from foveal.models.masked_attention import MaskedDecoder, MaskedLayer, where
from foveal.models.maskformer import Perceptron
from foveal.models.query_decoder import QueryDecoder, QueryLayer, read

WIDTH, HEADS, HIDDEN, QUERIES, EMBEDDING = 24, 4, 20, 5, 11
SIDES = [(3, 2), (5, 4), (9, 7)]  # of the maps, the coarsest first; odd ones, and no side is twice another
SIZES = {"queries": QUERIES, "heads": HEADS, "hidden": HIDDEN}


def settings(**changes):
    from transformers import Mask2FormerConfig

    facts = {"hidden_dim": WIDTH, "num_attention_heads": HEADS, "dim_feedforward": HIDDEN, "num_queries": QUERIES}
    return Mask2FormerConfig(**facts | {"mask_feature_size": EMBEDDING, "dropout": 0.0} | changes)


def layer_weights(theirs):
    """Of one layer of theirs, under our names."""
    own = {}
    for ours, other in (("cross_attention", theirs.cross_attn), ("self_attention", theirs.self_attn)):
        joint = ours == "cross_attention"  # torch's own layer, which joins q, k and v as ours does
        each = [getattr(other, f"{letter}_proj") for letter in "qkv"] if not joint else []
        name = f"{ours}.layer.attention"
        own[f"{name}.qkv.weight"] = other.in_proj_weight if joint else torch.cat([one.weight for one in each])
        own[f"{name}.qkv.bias"] = other.in_proj_bias if joint else torch.cat([one.bias for one in each])
        norm = getattr(theirs, "cross_attn_layer_norm" if joint else "self_attn_layer_norm")
        own |= named(f"{name}.out", other.out_proj) | named(f"{ours}.norm", norm)
    own |= named("feed_forward.layer.inner", theirs.fc1) | named("feed_forward.layer.outer", theirs.fc2)
    return own | named("feed_forward.norm", theirs.final_layer_norm)


def named(name, part):
    return {f"{name}.weight": part.weight, f"{name}.bias": part.bias}


def tokens(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@torch.no_grad()
def test_witness_transformers_layer():
    from transformers.models.mask2former.modeling_mask2former import Mask2FormerMaskedAttentionDecoderLayer

    torch.manual_seed(0)
    theirs = spread(Mask2FormerMaskedAttentionDecoderLayer(settings())).double()
    layer = MaskedLayer(WIDTH, HEADS, HIDDEN, 0.0, 0.0).double().eval()
    layer.load_state_dict(layer_weights(theirs))
    x, places = tokens(3, QUERIES, WIDTH), tokens(QUERIES, WIDTH, seed=1)
    memory, cells = tokens(3, 7, WIDTH, seed=2), tokens(7, WIDTH, seed=3)
    mask = where(tokens(3, QUERIES, 7, 1, seed=4))
    assert 0 < mask.double().mean() < 1
    mine = layer(x, places, memory, cells, mask)
    hidden = ~mask.expand(-1, HEADS, -1, -1).flatten(0, 1)  # theirs means the opposite
    (other, *_) = theirs(
        x.transpose(0, 1),
        0,
        None,
        [cells[:, None]],
        places[:, None].expand(-1, 3, -1),
        [memory.transpose(0, 1)],
        encoder_attention_mask=hidden,
    )
    assert (mine - other.transpose(0, 1)).abs().max() < 1e-12
    assert (mine - layer(x, places, memory, cells)).abs().max() > 1e-3, "the mask changes nothing"


@pytest.mark.parametrize("seen", [WIDTH, 10])  # with a width of its own, a map is projected
@torch.no_grad()
def test_witness_transformers_decoder_with_multi_scale_memory_in_turn(seen):
    from transformers.models.mask2former.modeling_mask2former import Mask2FormerTransformerModule

    torch.manual_seed(0)
    theirs = spread(Mask2FormerTransformerModule(seen, settings(decoder_layers=6))).double()
    decoder = MaskedDecoder(seen, WIDTH, 3, layers=5, **SIZES).double().eval()
    embed = Perceptron(WIDTH, EMBEDDING).double()
    own = named("norm", theirs.decoder.layernorm)
    own |= {"queries": theirs.queries_features.weight, "places": theirs.queries_embedder.weight}
    own |= {"level": theirs.level_embed.weight}
    for level, project in enumerate(theirs.input_projections):
        own |= named(f"project.{level}", project) if seen != WIDTH else {}
    for number, layer in enumerate(theirs.decoder.layers):
        own |= {f"layers.{number}.{name}": tensor for name, tensor in layer_weights(layer).items()}
    decoder.load_state_dict(own)
    inner = theirs.decoder.mask_predictor.mask_embedder
    for number in range(3):
        embed[2 * number].load_state_dict(inner.get_submodule(f"{number}.0").state_dict())
    maps = [tokens(2, seen, *sides, seed=number) for number, sides in enumerate(SIDES)]
    # Of one sign but for a little: some masks are nowhere, and those queries look everywhere.
    pixels = tokens(2, EMBEDDING, 12, 8, seed=5) * 0.5 + 0.5
    states = decoder(None, [*maps, None], pixels, embed)
    found = theirs(maps, pixels)
    assert len(states) == len(found.intermediate_hidden_states) == 6
    masks = [torch.einsum("bne,behw->bnhw", embed(state), pixels) for state in states]
    for mine, other in zip(states, found.intermediate_hidden_states, strict=True):
        assert (mine - other.transpose(0, 1)).abs().max() < 1e-10
    for mine, other in zip(masks, found.masks_queries_logits, strict=True):
        assert (mine - other).abs().max() < 1e-10
    small = [F.interpolate(one, SIDES[number % 3], mode="bilinear") > 0 for number, one in enumerate(masks[:-1])]
    share = [float(one.double().mean()) for one in small]
    assert sum(0 < one < 1 for one in share) > 3, "masks that hide nothing prove nothing"
    assert any((~one).flatten(2).all(-1).any() for one in small), "no query sees nothing"


@torch.no_grad()
def test_a_layer_equals_plain_loops():
    torch.manual_seed(0)
    layer = spread(MaskedLayer(6, 2, 7, 0.0, 0.0)).double()
    x, places = tokens(2, 3, 6), tokens(3, 6, seed=1)
    memory, cells = tokens(2, 5, 6, seed=2), tokens(5, 6, seed=3)
    masks = tokens(2, 3, 5, 1, seed=4)
    masks[1, 2] = -1.0  # this one sees nothing
    mine = layer(x, places, memory, cells, where(masks)).tolist()
    for number in range(2):
        want = looped(layer, x[number], places, memory[number], cells, masks[number].flatten(1))
        assert torch.allclose(torch.tensor(mine[number]), torch.tensor(want), atol=1e-10)


def looped(layer, x, places, memory, cells, masks):
    x, places, memory, cells, masks = (one.tolist() for one in (x, places, memory, cells, masks))

    def seen(i, j):
        somewhere = any(sigmoid(one) > 0.5 for one in masks[i])
        return sigmoid(masks[i][j]) > 0.5 or not somewhere

    cross, own = layer.cross_attention, layer.self_attention
    asked, keys = added(x, places), added(memory, cells)
    x = normed(x, multihead(asked, keys, *parts(cross.layer.attention), 2, 2, seen, memory), cross.norm)
    asked = added(x, places)
    x = normed(x, multihead(asked, asked, *parts(own.layer.attention), 2, 2, None, x), own.norm)
    inner, outer = (pair(one) for one in (layer.feed_forward.layer.inner, layer.feed_forward.layer.outer))
    return normed(x, [feed_forward(row, inner, outer) for row in x], layer.feed_forward.norm)


def sigmoid(z):
    return 1 / (1 + 2.718281828459045**-z)


def added(rows, others):
    return [[a + b for a, b in zip(row, other, strict=True)] for row, other in zip(rows, others, strict=True)]


def normed(x, change, norm):
    return [layer_norm(row, *pair(norm)) for row in added(x, change)]


def test_where_a_query_may_look_by_hand():
    masks = torch.tensor([[[3.0, -0.1], [0.1, -2.0]], [[-1.0, -1.0], [-1.0, 0.0]]], requires_grad=True)[None]
    kept = where(masks)
    assert kept.shape == (1, 1, 2, 4)
    assert kept[0, 0].tolist() == [[True, False, True, False], [True, True, True, True]]
    assert not kept.requires_grad


@torch.no_grad()
def test_a_query_sees_only_what_its_mask_is_on():
    """Cells beyond it may say whatever they like, but where it is nowhere."""
    torch.manual_seed(0)
    layer = spread(MaskedLayer(6, 2, 7, 0.0, 0.0))
    # Alone with its cells: queries tell each other what they saw.
    for weight in layer.self_attention.layer.attention.out.parameters():
        weight.zero_()
    x, places, memory, cells = torch.randn(1, 2, 6), torch.randn(2, 6), torch.randn(1, 4, 6), torch.randn(4, 6)
    mask = where(torch.tensor([[[[1.0, 1.0, -1.0, -1.0]], [[-1.0, -1.0, -1.0, -1.0]]]]))
    before = layer(x, places, memory, cells, mask)
    memory[0, 2:] += 1
    after = layer(x, places, memory, cells, mask)
    assert torch.equal(before[0, 0], after[0, 0])
    assert (before[0, 1] - after[0, 1]).abs().max() > 1e-3


def test_order_is_cross_attention_first():
    x, places = torch.randn(1, 2, 6), torch.randn(2, 6)
    memory, cells = torch.randn(1, 4, 6), torch.randn(4, 6)
    torch.manual_seed(0)
    masked, plain = spread(MaskedLayer(6, 2, 7, 0.0, 0.0)), spread(QueryLayer(6, 2, 7, 0.0, 0.0))
    plain.load_state_dict(masked.state_dict())
    y = masked.feed_forward(masked.self_attention(masked.cross_attention(x, places, memory, cells), places))
    assert torch.equal(masked(x, places, memory, cells), y)
    assert (plain(x, places, memory, cells) - y).abs().max() > 1e-3


def test_places_count_from_one_to_a_whole_turn():
    """As transformers' sine embedding has them, on a grid of odd sides."""
    from transformers.models.maskformer.modeling_maskformer import MaskFormerSinePositionEmbedding

    maps = torch.randn(2, 12, 3, 7)
    memory, cells = read(maps)
    want = MaskFormerSinePositionEmbedding(6, normalize=True)((2, 12, 3, 7), maps.device, maps.dtype)
    assert (cells - want[1].flatten(1).T).abs().max() < 1e-6
    assert torch.equal(memory[1, 8], maps[1, :, 1, 1])


@pytest.mark.parametrize("masked", [False, True])
def test_every_weight_of_a_decoder_learns(masked):
    torch.manual_seed(0)
    maps = [torch.randn(2, 10, *sides) for sides in SIDES]
    if masked:
        decoder = spread(MaskedDecoder(10, WIDTH, 3, layers=3, **SIZES))
        states = decoder(None, maps, torch.randn(2, 6, 12, 8), nn.Linear(WIDTH, 6))
    else:
        decoder = spread(QueryDecoder(10, WIDTH, layers=3, **SIZES))
        states = decoder(maps)
    assert [tuple(state.shape) for state in states] == [(2, QUERIES, WIDTH)] * (3 + masked)
    sum((state * torch.randn_like(state)).sum() for state in states).backward()
    still = [name for name, weight in decoder.named_parameters() if weight.grad.abs().max() < 1e-4]
    # DETR's queries begin as 0: wherever they look at each other first, they see the same.
    assert still == ([] if masked else ["layers.0.self_attention.layer.attention.qkv.weight"])
