import pytest
import torch
from models.witness import apart, by_onnx, carried, from_file, given_back, images, parameters, spread
from torch.nn import functional as F

from foveal.errors import FovealError
from foveal.models.convert_vision import from_transformers
from foveal.models.pvt import Pvt, PvtConfig
from foveal.models.zoo import create

SMALL = {"widths": (6, 10, 12, 14), "depths": (1, 2, 1, 2), "heads": (1, 2, 3, 2), "expands": (3, 2, 3, 2)}
SIDE = 64


def ours(**changes):
    torch.manual_seed(0)
    return spread(Pvt(PvtConfig(**{"classes": 7, "image": SIDE} | SMALL | changes)))


def theirs(**changes):
    from transformers import PvtConfig, PvtForImageClassification

    torch.manual_seed(0)
    facts = {"hidden_sizes": [6, 10, 12, 14], "depths": [1, 2, 1, 2], "num_attention_heads": [1, 2, 3, 2]}
    facts |= {"mlp_ratios": [3, 2, 3, 2], "image_size": SIDE, "num_labels": 7}
    return spread(PvtForImageClassification(PvtConfig(**facts | changes)))


def for_sides(other, height, width):
    """Their model for images of another size: it interpolates no positions, so they are stretched beforehand.

    It adds the table as it stands where it has as many rows as the map has cells.
    """
    stretched = other.__class__(other.config).eval()
    stretched.load_state_dict(other.state_dict())
    for stage, embedding in enumerate(stretched.pvt.encoder.patch_embeddings):
        stride, table = 4 * 2**stage, embedding.position_embeddings[0]
        first, cells = (table[:1], table[1:]) if stage == 3 else (table[:0], table)
        grid = cells.unflatten(0, (SIDE // stride,) * 2).permute(2, 0, 1)[None]
        to = F.interpolate(grid, (height // stride, width // stride), mode="bilinear").flatten(2)[0].T
        embedding.position_embeddings = torch.nn.Parameter(torch.cat([first, to])[None])
    return stretched


# Whole maps; odd ones of every stage; a wide one; the smallest; maps that neither patches nor reductions divide.
SIZES = [(64, 64), (45, 45), (61, 103), (32, 128), (32, 32), (75, 97)]


@pytest.mark.parametrize("sides", SIZES)
def test_witness_transformers_on_any_size(sides):
    other = theirs(layer_norm_eps=1e-3)
    assert apart(carried(other), for_sides(other, *sides), images(*sides)) < 1e-5


@pytest.mark.parametrize("sides", SIZES)
def test_and_back(sides):
    model = ours()
    assert apart(model, for_sides(given_back(model), *sides), images(*sides)) < 1e-5


def test_at_its_own_size_transformers_needs_no_help():
    other = theirs()
    assert apart(carried(other), other, images(SIDE, SIDE)) < 1e-5


def test_files_of_transformers_are_read_and_what_training_needs_goes_with_them():
    other = theirs(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3, drop_path_rate=0.4)
    model = from_file(other)
    assert apart(model, other, images(SIDE, SIDE)) < 1e-5
    assert (model.config.dropout, model.config.attention_dropout, model.config.drop_path) == (0.2, 0.3, 0.4)
    assert model.config.epsilon == 1e-6
    rates = [block.attention.drop_path for stage in model.stages for block in stage.layers]
    assert rates == pytest.approx([0.08 * number for number in range(6)])


@torch.no_grad()
def test_features_are_what_each_stage_of_transformers_makes():
    other = theirs()
    model, x = carried(other), images(61, 103)
    maps = model.features(x)
    assert [tuple(one.shape) for one in maps] == [(2, 6, 15, 25), (2, 10, 7, 12), (2, 12, 3, 6), (2, 14, 1, 3)]
    assert (model.strides, model.widths) == ((4, 8, 16, 32), (6, 10, 12, 14))
    blocks = for_sides(other, 61, 103)(x, output_hidden_states=True).hidden_states[:-1]  # of each block, not normed
    for mine, last in zip(maps, (0, 2, 3, 5), strict=True):
        want = blocks[last][:, 1:] if last == 5 else blocks[last]  # without the class token
        assert (mine.flatten(2).mT - want).abs().max() < 1e-5


@pytest.mark.parametrize("name", ["pvt-tiny", "pvt-small"])
def test_a_preset_has_the_parameters_of_transformers(name):
    from transformers import PvtConfig, PvtForImageClassification

    with torch.device("meta"):
        model = create(name, classes=1000)
        other = PvtForImageClassification(PvtConfig(depths=list(model.config.depths), num_labels=1000))
    assert parameters(model) == parameters(other) == {"pvt-tiny": 13_229_288, "pvt-small": 24_485_864}[name]


def test_micro_is_small():
    assert parameters(create("pvt-micro")) <= 300_000


def test_new_weights_are_a_truncated_normal_of_a_fiftieth():
    torch.manual_seed(0)
    model = create("pvt-micro")
    last = model.stages[3]
    for weight in (model.stages[1].layers[0].attention.layer.reduce.weight, last.patches.weight, last.position.table):
        assert float(weight.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert last.class_token.any()
    assert last.class_position.any()


@pytest.mark.slow
@pytest.mark.parametrize("sides", [(64, 64), (93, 116)])
def test_onnx_equals_torch(sides):
    torch.manual_seed(0)
    model = spread(create("pvt-micro", classes=3))
    x = images(*sides, batch=3)
    assert (by_onnx(model, x) - model(x)).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 0}, "Pvt's classes: expected at least 1, got 0"),
        ({"image": 31}, "Pvt's image: expected at least 32, one cell of the last stage, got 31"),
        ({"widths": (6, 10)}, "Pvt's widths: expected four numbers, one for each stage, got (6, 10)"),
        ({"heads": (1, 3, 3, 2)}, "Pvt's heads of stage 2: expected a divisor of the width 10, got 3"),
        ({"reductions": (8, 4, 2, 2)}, "Pvt's reductions: expected 1 in the last stage, whose class token"),
        ({"expands": (8, 8, 4, 0.5)}, "Pvt's expands: expected an integer, at least 1, got 0.5"),
        ({"attention_dropout": 2}, "Pvt's attention_dropout: expected at least 0 and below 1, got 2"),
    ],
)
def test_what_cannot_be_built_is_named_in_one_line(changes, message):
    with pytest.raises(FovealError) as caught:
        Pvt(PvtConfig(**{"image": SIDE} | SMALL | changes))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_images_that_do_not_fit_are_named_in_one_line():
    for given, message in (
        (torch.zeros(1, 3, 31, 64), r"Pvt's images: expected \(B, 3, h, w\) with sides of at least 32, got \(1, 3, 31"),
        (torch.zeros(1, 3, 64, 64, dtype=torch.uint8), "expected torch.float32, as its weights, got torch.uint8"),
    ):
        for call in (ours(), ours().features):
            with pytest.raises(FovealError, match=message):
                call(given)
    # A coarser copy of a map has at least one cell.
    with pytest.raises(FovealError, match="sides of at least 48"):
        ours(reductions=(12, 4, 2, 1))(torch.zeros(1, 3, 47, 64))


def test_what_ours_cannot_be_is_refused():
    other = theirs()
    facts, weights = other.config.to_dict(), other.state_dict()
    for changes, message in (
        ({"strides": [7, 3, 3, 3]}, r"the config's strides: expected its patch_sizes, \[4, 2, 2, 2\], got \[7, 3, 3"),
        ({"image_size": 96}, r"the weights' positions: expected 24 × 24 of them, got \(1, 256, 6\)"),
        ({"hidden_sizes": [6, 10, 12]}, "Pvt's widths: expected four numbers"),
    ):
        with pytest.raises(FovealError, match=message):
            from_transformers(facts | changes, weights)
