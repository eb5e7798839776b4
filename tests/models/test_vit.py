import pytest
import torch
from models.witness import apart, by_onnx, carried, from_file, given_back, images, parameters, spread
from torch import nn
from torch.nn import functional as F

from foveal.errors import FovealError
from foveal.explain.saliency import attention_maps
from foveal.models.convert_vision import from_transformers, to_transformers
from foveal.models.heads import remove_heads
from foveal.models.image_model import depth_rates
from foveal.models.vit import PRESETS, Stem, Vit, VitConfig
from foveal.models.zoo import create

SMALL = VitConfig(classes=7, image=40, patch=8, width=15, heads=3, layers=2, hidden=22)
SIZES = [(40, 40), (37, 53), (8, 8), (16, 41), (80, 9)]


def theirs(**changes):
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    facts = {"hidden_size": 15, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 22}
    facts |= {"image_size": 40, "patch_size": 8, "num_labels": 7}
    return spread(ViTForImageClassification(ViTConfig(**facts | changes)))


@pytest.mark.parametrize("sides", SIZES)
def test_witness_transformers_on_any_size(sides):
    other = theirs(layer_norm_eps=1e-3)
    assert apart(carried(other), other, images(*sides), interpolate_pos_encoding=True) < 1e-5


@pytest.mark.parametrize("sides", SIZES)
def test_and_back(sides):
    torch.manual_seed(0)
    ours = spread(Vit(SMALL))
    assert apart(ours, given_back(ours), images(*sides), interpolate_pos_encoding=True) < 1e-5


def test_files_of_transformers_are_read_and_what_training_needs_goes_with_them():
    other = theirs(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3)
    ours = from_file(other)
    assert apart(ours, other, images(40, 40)) < 1e-5
    assert (ours.config.dropout, ours.config.attention_dropout, ours.config.epsilon) == (0.2, 0.3, 1e-12)
    assert ours.layers[1].attention.layer.dropout == 0.3
    assert to_transformers(ours)[0]["hidden_dropout_prob"] == 0.2


@pytest.mark.parametrize("name", ["vit-tiny", "vit-base"])
def test_a_preset_has_the_parameters_of_transformers(name):
    from transformers import ViTConfig, ViTForImageClassification

    with torch.device("meta"):
        ours = create(name, classes=1000)
        config = ours.config
        wide = {"hidden_size": config.width, "num_attention_heads": config.heads, "intermediate_size": config.hidden}
        other = ViTForImageClassification(ViTConfig(num_labels=1000, **wide))
    assert parameters(ours) == parameters(other) == {"vit-tiny": 5_717_416, "vit-base": 86_567_656}[name]


def test_micro_is_small_and_reads_patches_by_convolutions():
    model = create("vit-micro")
    assert parameters(model) <= 300_000
    assert isinstance(model.patches, Stem)
    assert len(PRESETS["vit-micro"].stem) == 4
    assert model.patches(images(37, 55)).shape == (2, 64, 2, 3), "whole patches only, as of the linear map"


def test_it_is_the_equation():
    torch.manual_seed(0)
    model = spread(Vit(SMALL)).double()
    x = images(16, 24).double()
    weight = model.patches.weight.flatten(1)  # E, of each patch as one vector
    patches = [
        x[:, :, r : r + 8, c : c + 8].flatten(1) @ weight.T + model.patches.bias for r in (0, 8) for c in (0, 8, 16)
    ]
    table = F.interpolate(model.position.table.permute(2, 0, 1)[None], (2, 3), mode="bicubic").flatten(2).mT
    first = (model.class_token + model.class_position).expand(2, 1, -1)
    z = torch.cat([first, torch.stack(patches, 1) + table], 1)
    for block in model.layers:
        torch_block = nn.TransformerEncoderLayer(
            15, 3, 22, 0.0, "gelu", layer_norm_eps=1e-6, batch_first=True, norm_first=True
        ).double()
        attention, network = block.attention.layer, block.feed_forward.layer
        torch_block.self_attn.in_proj_weight.data = attention.qkv.weight.data
        torch_block.self_attn.in_proj_bias.data = attention.qkv.bias.data
        for ours, other in (
            (attention.out, torch_block.self_attn.out_proj),
            (network.inner, torch_block.linear1),
            (network.outer, torch_block.linear2),
            (block.attention.norm, torch_block.norm1),
            (block.feed_forward.norm, torch_block.norm2),
        ):
            other.load_state_dict(ours.state_dict())
        z = torch_block(z)
    logits = model.head(F.layer_norm(z, (15,), model.norm.weight, model.norm.bias, 1e-6)[:, 0])
    assert (model(x) - logits).abs().max() < 1e-9


def test_features_are_a_pyramid_of_the_last_map():
    model = spread(Vit(SMALL))
    maps = model.features(images(37, 53))
    assert model.strides == (4, 8, 16, 32)
    assert model.widths == (15, 15, 15, 15)
    assert [tuple(one.shape) for one in maps] == [(2, 15, 8, 12), (2, 15, 4, 6), (2, 15, 2, 3), (2, 15, 1, 2)]
    tokens, sides = model.tokens(images(37, 53))
    assert sides == (4, 6)
    assert torch.equal(maps[1].flatten(2).mT, tokens[:, 1:])
    assert torch.allclose(maps[2][:, :, 1, 2], maps[1][:, :, 2:4, 4:6].mean((2, 3)), atol=1e-6)
    assert torch.allclose(maps[3][:, :, 0, 1], maps[1][:, :, :, 4:].mean((2, 3)), atol=1e-6), "the rest of the border"
    assert torch.allclose(maps[0][:, :, 1, 1], (maps[1][:, :, :2, :2] * NEAR).sum((2, 3)), atol=1e-6)
    with pytest.raises(FovealError, match=r"Vit's patch: expected one of \(4, 8, 16, 32\), .*, got 14"):
        Vit(VitConfig(image=28, patch=14, width=4, heads=1, layers=1, hidden=3)).features(images(28, 28))


NEAR = torch.tensor([[9.0, 3.0], [3.0, 1.0]]) / 16  # pixel 1 of 2 per cell lies a quarter of a cell behind the middle


def test_new_weights_are_a_truncated_normal_of_a_fiftieth():
    torch.manual_seed(0)
    model = Vit(VitConfig(width=96, heads=3, layers=2, hidden=192))
    for weight in (model.patches.weight, model.position.table, model.layers[1].attention.layer.qkv.weight):
        assert float(weight.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert not model.layers[0].feed_forward.layer.inner.bias.any()
    stem = create("vit-micro").patches
    assert stem[0][0].weight.std() > 0.08, "with BatchNorm behind it, as torch draws it"


def test_stochastic_depth_grows_with_the_blocks_and_is_off_in_evaluation():
    assert depth_rates(0.4, 5) == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    assert depth_rates(0.4, 1) == [0]
    torch.manual_seed(0)
    model = spread(Vit(VitConfig(image=16, patch=8, width=6, heads=2, layers=3, hidden=5, drop_path=0.5)))
    assert [one.attention.drop_path for one in model.layers] == pytest.approx([0, 0.25, 0.5])
    x = images(16, 16)
    quiet = model(x)
    assert torch.equal(quiet, model(x))
    model.train()
    assert not torch.equal(model(x), model(x))


@pytest.mark.slow
@pytest.mark.parametrize("sides", [(64, 64), (49, 80)])
def test_onnx_equals_torch(sides):
    torch.manual_seed(0)
    model = spread(create("vit-micro", classes=3))
    x = images(*sides, batch=3)
    assert (by_onnx(model, x) - model(x)).abs().max() < 1e-5


def test_where_its_class_token_looked_is_a_map():
    model = spread(Vit(SMALL))
    maps = attention_maps(model, images(40, 40))
    assert maps.sides == (5, 5)
    assert len(maps.maps) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 0}, "Vit's classes: expected at least 1, got 0"),
        ({"image": 7}, "Vit's image: expected at least one patch of 8, got 7"),
        ({"heads": 4}, "heads: expected a divisor of the width 15, got 4"),
        ({"stem": (3, 5)}, "Vit's patch: expected 4, as a stem of 2 convolutions halves it, got 8"),
        ({"stem": 3}, "Vit's stem: expected a tuple of channels, got 3"),
        ({"drop_path": 1}, "Vit's drop_path: expected at least 0 and below 1, got 1"),
        ({"dropout": "a"}, "Vit's dropout: expected at least 0 and below 1, got 'a'"),
    ],
)
def test_what_cannot_be_built_is_named_in_one_line(changes, message):
    with pytest.raises(FovealError) as caught:
        Vit(VitConfig(**{"classes": 7, "image": 40, "patch": 8, "width": 15, "heads": 3, "layers": 2} | changes))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.zeros(1, 3, 7, 40), r"Vit's images: expected \(B, 3, h, w\) with sides of at least 8, got \(1, 3, 7, 4"),
        (torch.zeros(3, 40, 40), r"got \(3, 40, 40\)"),
        (torch.zeros(1, 1, 40, 40), r"got \(1, 1, 40, 40\)"),
        (torch.zeros(1, 3, 40, 40).double(), "expected torch.float32, as its weights, got torch.float64"),
        (None, "got None"),
    ],
)
def test_images_that_do_not_fit_are_named_in_one_line(given, message):
    for call in (Vit(SMALL), Vit(SMALL).features):
        with pytest.raises(FovealError, match=message):
            call(given)


def test_what_transformers_has_no_place_for_is_refused():
    with pytest.raises(FovealError, match="the model's stem: expected none: transformers' ViT has a linear map there"):
        to_transformers(create("vit-micro"))
    with pytest.raises(FovealError, match=r"the model: expected a Vit.*, got a Linear"):
        to_transformers(nn.Linear(2, 2))
    pruned = Vit(SMALL)
    remove_heads(pruned, {1: [0]})
    with pytest.raises(FovealError, match=r"the model: expected one as its config says, got a smaller layers\.1\."):
        to_transformers(pruned)
    other = theirs()
    facts, weights = other.config.to_dict(), other.state_dict()
    for changes, message in (
        ({"model_type": ["vit"]}, "no kind of model"),
        ({"num_hidden_layers": 10**8}, "the config: expected at most 40 blocks, as the file has tensors, got more"),
        ({"num_hidden_layers": "a"}, "the config: expected the sizes of a ViTForImageClassification, got others"),
        ({"hidden_size": 2**30 - 1}, "the config: expected the sizes of a ViTForImageClassification, got others"),
        ({"layer_norm_eps": None}, "Vit's epsilon: expected a number above 0, got None"),
        ({"model_type": "vita"}, "no kind of model .* is called 'vita'; the nearest is 'vit'"),
        ({"hidden_act": "relu"}, "the config's hidden_act: expected 'gelu', got 'relu'"),
        ({"qkv_bias": False}, "the config's qkv_bias: expected True, got False"),
        ({"image_size": [40, 48]}, "the config's image_size: expected one number"),
        ({"image_size": 48}, r"the weights' positions: expected 1 \+ 6 × 6 of them, got \(1, 26, 15\)"),
        ({"num_hidden_layers": 1}, "the weights: expected those of the model and no others, got vit.encoder.layer.1."),
        ({"num_hidden_layers": 3}, "the weights: expected layers.2.attention.layer.q.weight, got none of that name"),
        ({"intermediate_size": 23}, "the weights of layers.0.feed_forward.layer.inner.weight: expected"),
    ):
        with pytest.raises(FovealError, match=message):
            from_transformers(facts | changes, weights)
    without = {key: value for key, value in facts.items() if key != "hidden_size"}
    with pytest.raises(FovealError, match="the config: expected hidden_size, got none of that name"):
        from_transformers(without, weights)
