import copy

import pytest
import torch
from models.witness import apart, by_onnx, carried, from_file, given_back, images, parameters, spread

from foveal.errors import FovealError
from foveal.layers.multihead import MultiHead
from foveal.models.convert_vision import from_transformers
from foveal.models.swin import FilledWindows, Merge, Swin, SwinConfig
from foveal.models.zoo import create
from foveal.position.bias_table import BiasTable

SMALL = {"width": 6, "depths": (2, 3, 2, 2), "heads": (1, 2, 3, 4), "window": 3, "expand": 3}
# The last map is 3 × 3, one window; maps that neither windows nor pairs divide; one window high, and several wide.
SIZES = [(96, 96), (101, 149), (72, 160), (131, 97)]


def ours(**changes):
    torch.manual_seed(0)
    return spread(Swin(SwinConfig(**{"classes": 7, "image": 96} | SMALL | changes)))


def theirs(**changes):
    from transformers import SwinConfig, SwinForImageClassification

    torch.manual_seed(0)
    facts = {"embed_dim": 6, "depths": [2, 3, 2, 2], "num_heads": [1, 2, 3, 4], "window_size": 3, "mlp_ratio": 3.0}
    return spread(SwinForImageClassification(SwinConfig(**facts | {"image_size": 96, "num_labels": 7} | changes)))


@pytest.mark.parametrize("sides", SIZES)
def test_witness_transformers_on_any_size(sides):
    other = theirs()
    assert apart(carried(other), other, images(*sides)) < 1e-5


@pytest.mark.parametrize("sides", SIZES)
def test_and_back(sides):
    model = ours()
    assert apart(model, given_back(model), images(*sides)) < 1e-5


def test_files_of_transformers_are_read_and_what_training_needs_goes_with_them():
    other = theirs(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3, drop_path_rate=0.4)
    model = from_file(other)
    assert apart(model, other, images(96, 96)) < 1e-5
    assert (model.config.dropout, model.config.attention_dropout, model.config.drop_path) == (0.2, 0.3, 0.4)
    rates = [block.attention.drop_path for stage in model.stages for block in stage.layers]
    assert rates == pytest.approx([0.05 * number for number in range(9)])


@torch.no_grad()
def test_features_are_what_each_stage_of_transformers_makes():
    other = theirs()
    model, x = carried(other), images(101, 149)
    maps = model.features(x)
    want = copy.deepcopy(other).swin(x, output_hidden_states=True, output_hidden_states_before_downsampling=True)
    assert [tuple(one.shape) for one in maps] == [(2, 6, 26, 38), (2, 12, 13, 19), (2, 24, 7, 10), (2, 48, 4, 5)]
    assert (model.strides, model.widths) == ((4, 8, 16, 32), (6, 12, 24, 48))
    for mine, one in zip(maps, want.reshaped_hidden_states[1:], strict=True):
        assert (mine - one).abs().max() < 1e-5


@pytest.mark.parametrize("name", ["swin-tiny", "swin-base"])
def test_a_preset_has_the_parameters_of_transformers(name):
    from transformers import SwinConfig, SwinForImageClassification

    with torch.device("meta"):
        model = create(name, classes=1000)
        config = model.config
        facts = {"embed_dim": config.width, "depths": list(config.depths), "num_heads": list(config.heads)}
        other = SwinForImageClassification(SwinConfig(num_labels=1000, **facts))
    assert parameters(model) == parameters(other) == {"swin-tiny": 28_288_354, "swin-base": 87_768_224}[name]


def test_micro_is_small():
    assert parameters(create("swin-micro")) <= 300_000


def test_merging_by_hand():
    merge = Merge(1).double()
    with torch.no_grad():
        merge.reduce.weight.copy_(torch.tensor([[1.0, 0, 0, 0], [0, 0, 1, 0]]))
    x = torch.tensor([[[1.0], [2.0], [3.0]]], dtype=torch.float64)[None]  # one row of three cells
    # Of the first square, its upper left and upper right cell: 1 and 2 among (1, 0, 2, 0); of the second 3 and 0.
    first = (torch.tensor([1.0, 2.0]) - 0.75) / (0.6875 + 1e-5) ** 0.5
    second = (torch.tensor([3.0, 0.0]) - 0.75) / (1.6875 + 1e-5) ** 0.5
    assert torch.allclose(merge(x)[0, 0], torch.stack([first, second]).double(), atol=1e-6)


@pytest.mark.parametrize("side", [1, 2, 4])
def test_on_a_map_narrower_than_a_window_it_is_a_smaller_window(side):
    torch.manual_seed(0)
    layer = spread(FilledWindows(6, 2, window=5, shift=2, position=BiasTable(2, 5, 5))).double()
    small = MultiHead(6, 2, position=BiasTable(2, side, side)).double()
    table = layer.attention.position.table.view(9, 9, 2)[5 - side : 4 + side, 5 - side : 4 + side].flatten(0, 1)
    weights = {name: value for name, value in layer.attention.state_dict().items() if "table" not in name}
    small.load_state_dict(weights | {"position.table": table})
    x = torch.randn(3, side, side, 6, dtype=torch.float64)
    assert (layer(x).flatten(1, 2) - small(x.flatten(1, 2))).abs().max() < 1e-12


@pytest.mark.parametrize("sides", [(1, 1), (3, 50), (33, 12)])
def test_the_smallest_images_are_taken(sides):
    model = ours()
    assert model(images(*sides)).isfinite().all()
    assert model.features(images(*sides))[0].shape[2:] == (-(-sides[0] // 4), -(-sides[1] // 4))


def test_new_weights_are_a_truncated_normal_of_a_fiftieth():
    torch.manual_seed(0)
    model = create("swin-micro", width=32)
    for weight in (model.stages[2].merge.reduce.weight, model.stages[3].layers[0].feed_forward.layer.inner.weight):
        assert float(weight.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert model.stages[3].layers[0].attention.layer.attention.position.table.std() < 0.03
    assert not model.patches.bias.any()


@pytest.mark.slow
@pytest.mark.parametrize("sides", [(64, 64), (93, 116)])
def test_onnx_equals_torch(sides):
    torch.manual_seed(0)
    model = spread(create("swin-micro", classes=3))
    x = images(*sides, batch=3)
    assert (by_onnx(model, x) - model(x)).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 0}, "Swin's classes: expected at least 1, got 0"),
        ({"depths": (2, 2)}, "Swin's depths: expected four numbers, one for each stage, got (2, 2)"),
        ({"depths": [2, 2, 0, 2]}, "Swin's depths: expected at least 1, got 0"),
        ({"heads": 3}, "Swin's heads: expected four numbers, one for each stage, got 3"),
        ({"heads": (1, 2, 5, 4)}, "Swin's heads of stage 3: expected a divisor of the width 24, got 5"),
        ({"window": 0}, "Swin's window: expected at least 1, got 0"),
        ({"drop_path": -0.1}, "Swin's drop_path: expected at least 0 and below 1, got -0.1"),
    ],
)
def test_what_cannot_be_built_is_named_in_one_line(changes, message):
    with pytest.raises(FovealError) as caught:
        Swin(SwinConfig(**SMALL | changes))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_images_that_do_not_fit_are_named_in_one_line():
    for given, message in (
        (torch.zeros(1, 3, 0, 9), r"Swin's images: expected \(B, 3, h, w\) with sides of at least 1, got \(1, 3, 0, 9"),
        (torch.zeros(1, 4, 9, 9), r"got \(1, 4, 9, 9\)"),
        ("image.png", "got 'image.png'"),
    ):
        with pytest.raises(FovealError, match=message):
            ours()(given)


def test_what_ours_cannot_be_is_refused():
    other = theirs()
    facts, weights = other.config.to_dict(), other.state_dict()
    for changes, message in (
        ({"use_absolute_embeddings": True}, "the config's use_absolute_embeddings: expected False, got True"),
        ({"layer_norm_eps": 1e-6}, "the config's layer_norm_eps: expected 1e-05, got 1e-06"),
        ({"mlp_ratio": 2.5}, r"Swin's expand: expected an integer, at least 1, got 2\.5"),
        ({"window_size": 4}, "the weights of stages.0.layers.0.attention.layer.attention.position.table: expected"),
        ({"depths": [2, 3, 2]}, "Swin's depths: expected four numbers"),
    ):
        with pytest.raises(FovealError, match=message):
            from_transformers(facts | changes, weights)
