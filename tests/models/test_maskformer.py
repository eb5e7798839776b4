"""MaskFormer: transformers' model with weights carried over both ways, its decoders' parts by hand, and what holds for
every model that gives maps.

The decoders themselves: tests/models/test_masked_attention.py.
"""

import copy

import pytest
import torch
from models.segments import by_onnx, is_loaded, is_small
from models.witness import carried, from_file, given_back, images, parameters, spread

from foveal.app.cli import main
from foveal.errors import FovealError
from foveal.layers.multihead import MultiHead
from foveal.models.convert_vision import from_transformers, to_transformers
from foveal.models.maskformer import PRESETS, MaskFormer, MaskFormerConfig, mixed
from foveal.models.store import describe, load_model, save_model
from foveal.models.swin import Swin, SwinConfig
from foveal.models.zoo import config_of, create, presets_of
from foveal.runtime.card import Card
from foveal.tasks.load import list_models
from foveal.tasks.segment.card import SegmentCard

SWIN = {"width": 6, "depths": (2, 2, 2, 2), "heads": (1, 2, 3, 4), "window": 3, "expand": 3}
SIZES = {"queries": 5, "width": 24, "heads": 4, "layers": 2, "hidden": 20}
# Whole windows everywhere; maps that neither windows nor pairs divide; the last map narrower than a window, or a cell.
SIDES = [(288, 96), (101, 149), (70, 133), (33, 40), (20, 9)]


def ours(backbone="swin-micro", changes=SWIN, **others):
    torch.manual_seed(0)
    facts = {"classes": 7, "image": 96, "pixel_width": 32, "mask_width": 28, "groups": 32} | SIZES
    return spread(MaskFormer(MaskFormerConfig(backbone=backbone, backbone_config=changes, **facts | others)))


def masked(**others):
    return ours(attention="masked", layers=3, **others)


@pytest.fixture
def no_scipy(monkeypatch):
    """Theirs asks for scipy as soon as it is built, for a loss that nobody computes here."""
    from transformers.models.maskformer import modeling_maskformer

    monkeypatch.setattr(modeling_maskformer, "requires_backends", lambda *_: None)


def theirs(within=(), below=(), **others):
    from transformers import DetrConfig, MaskFormerForInstanceSegmentation
    from transformers import MaskFormerConfig as Config
    from transformers import SwinConfig as Backbone

    torch.manual_seed(0)
    facts = {"embed_dim": 6, "depths": [2, 2, 2, 2], "num_heads": [1, 2, 3, 4], "window_size": 3, "mlp_ratio": 3.0}
    backbone = Backbone(**facts | {"image_size": 96} | dict(below))
    facts = {"d_model": 24, "decoder_layers": 2, "decoder_ffn_dim": 20, "decoder_attention_heads": 4, "num_queries": 5}
    decoder = DetrConfig(**facts | dict(within))
    facts = {"fpn_feature_size": 32, "mask_feature_size": 28, "num_labels": 7}
    facts |= {"backbone_config": backbone.to_dict(), "decoder_config": decoder.to_dict()}
    return spread(MaskFormerForInstanceSegmentation(Config(**facts | others)))


@torch.no_grad()
def differences(model, other, x):
    """Of classes, masks, and of the share p that each label has of each cell."""
    found = copy.deepcopy(other)(x)
    classes, masks = model.learn(x).queries[0]
    labels = found.class_queries_logits.softmax(-1)[..., :-1]  # as theirs' own post-processing does
    shares = torch.einsum("bqc,bqhw->bchw", labels, found.masks_queries_logits.sigmoid())
    assert masks.std(0).max() > 0.1, "one answer for every image proves nothing"
    assert model(x).shape == shares.shape == (len(x), 7, -(-x.shape[2] // 4), -(-x.shape[3] // 4))
    pairs = ((classes, found.class_queries_logits), (masks, found.masks_queries_logits), (model(x).exp(), shares))
    return max(float((one - two).abs().max()) for one, two in pairs)


@pytest.mark.usefixtures("no_scipy")
@pytest.mark.parametrize("sides", SIDES)
def test_witness_transformers_on_any_size(sides):
    other = theirs().double()
    assert differences(carried(other), other, images(*sides).double()) < 1e-10


@pytest.mark.usefixtures("no_scipy")
def test_and_back():
    model = ours()
    with torch.no_grad():
        model.embed[4].weight.mul_(0.1)  # masks of ordinary size: float32 cannot hold 20 to 1e-5
    other = given_back(model)
    assert differences(model, other, images(101, 149)) < 1e-5
    assert differences(model.double(), other.double(), images(33, 40).double()) < 1e-10


@pytest.mark.usefixtures("no_scipy")
def test_files_of_transformers_are_read_and_what_training_needs_goes_with_them():
    dropped = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3, "drop_path_rate": 0.4}
    other = theirs({"dropout": 0.5, "attention_dropout": 0.6}, dropped)
    model = from_file(other)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in carried(other).state_dict().items())
    config = model.config
    assert (config.dropout, config.attention_dropout, config.classes, config.image) == (0.5, 0.6, 7, 96)
    assert config.backbone == "swin-tiny"
    rates = {"dropout": 0.2, "attention_dropout": 0.3, "drop_path": 0.4}
    assert config.backbone_config == SWIN | rates
    back = given_back(model)
    again, buffers = back.config, dict(back.named_buffers())
    for name, value in other.named_buffers():  # of the loss, and of the table of biases
        assert torch.equal(buffers[name], value)
    assert (again.decoder_config.dropout, again.decoder_config.attention_dropout) == (0.5, 0.6)
    assert {name: getattr(again.backbone_config, name) for name in dropped} == dropped
    assert again.num_labels == 7


@pytest.mark.usefixtures("no_scipy")
@torch.no_grad()
def test_every_layer_of_the_decoder_answers_the_last_one_first():
    other = theirs({"decoder_layers": 3}).double()
    model, x = carried(other), images(64, 96).double()
    queries = model.learn(x).queries
    states = []
    for layer in other.model.transformer_module.decoder.layers:
        layer.register_forward_hook(lambda _, __, y: states.append(y))
    found = other.model(x)
    assert len(queries) == len(states) == 3
    for (classes, masks), state in zip(reversed(queries), states, strict=True):
        normed = other.model.transformer_module.decoder.layernorm(state)
        want = torch.einsum("bqc,bchw->bqhw", other.mask_embedder(normed), found.pixel_decoder_last_hidden_state)
        assert (classes - other.class_predictor(normed)).abs().max() < 1e-10
        assert (masks - want).abs().max() < 1e-10


@pytest.mark.usefixtures("no_scipy")
@torch.no_grad()
def test_features_are_the_normed_maps_of_transformers_backbone():
    other = theirs().double()
    model, x = carried(other), images(101, 149).double()
    assert (model.strides, model.widths, model.stride, model.multiple) == ((4, 8, 16, 32), (6, 12, 24, 48), 4, 32)
    for mine, one in zip(model.features(x), other.model.pixel_level_module.encoder(x).feature_maps, strict=True):
        assert (mine - one).abs().max() < 1e-10


@pytest.mark.slow
@pytest.mark.usefixtures("no_scipy")
@pytest.mark.parametrize("name", ["maskformer-swin-tiny", "maskformer-swin-base"])
def test_a_preset_is_that_of_transformers(name):
    """As in facebook/maskformer-swin-tiny-ade and -base-ade; theirs has a LayerNorm more, which nothing passes."""
    from transformers import MaskFormerConfig as Config
    from transformers import MaskFormerForInstanceSegmentation

    with torch.device("meta"):
        model = create(name, classes=150)
        other = MaskFormerForInstanceSegmentation(Config(**to_transformers(model)[0]))
        plain = Config(num_labels=150)  # their defaults are the base model
    extra = 2 * model.widths[-1]
    assert parameters(model) == parameters(other) - extra
    assert parameters(model) == {"maskformer-swin-tiny": 41_757_009, "maskformer-swin-base": 101_829_391}[name]
    if name == "maskformer-swin-base":
        for key in ("fpn_feature_size", "mask_feature_size"):
            assert getattr(other.config, key) == getattr(plain, key)
        for key in ("num_queries", "d_model", "decoder_layers", "decoder_ffn_dim", "decoder_attention_heads"):
            assert getattr(other.config.decoder_config, key) == getattr(plain.decoder_config, key)
        for key in ("embed_dim", "depths", "num_heads", "window_size", "drop_path_rate"):
            mine, their = (getattr(config.backbone_config, key) for config in (other.config, plain))
            assert mine == (list(their) if isinstance(their, (list, tuple)) else their)


@pytest.mark.slow
@pytest.mark.usefixtures("no_scipy")
def test_a_preset_carried_over_is_a_preset_again():
    torch.manual_seed(0)
    model = create("maskformer-swin-tiny", classes=3, image=224)
    again = from_transformers(*to_transformers(model))
    assert again.config == model.config
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())
    x = images(96, 130, batch=1)
    assert torch.equal(again(x), model.eval()(x))


def test_a_pixel_is_shared_by_the_masks_on_it_by_hand():
    # Two queries, labels 0 and 1, and "nothing": the second query is nothing but for a tenth of label 1.
    classes = torch.tensor([[[0.2, 0.5, 0.3], [0.0001, 0.1, 0.8999]]]).log()
    masks = torch.logit(torch.tensor([[[[0.9, 0.1]], [[0.5, 1e-30]]]], dtype=torch.float64))
    found = mixed(classes.double(), masks).exp()[0, :, 0]
    want = torch.tensor([[0.2 * 0.9 + 0.0001 * 0.5, 0.02], [0.5 * 0.9 + 0.1 * 0.5, 0.05]])
    assert torch.allclose(found, want.double(), atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_pixel_that_no_mask_is_on_is_still_what_the_nearest_is_said_to_be(dtype):
    classes = torch.randn(1, 2, 4, dtype=dtype, generator=torch.Generator().manual_seed(1))
    masks = torch.full((1, 2, 3, 5), -200.0, dtype=dtype)
    masks[:, 1] = -190.0  # σ is 0 in any 32 bits
    masks.requires_grad_()
    logits = mixed(classes, masks)
    want = classes.float().softmax(-1)[0, 1, :-1].log() - 190
    assert (logits - want[:, None, None]).abs().max() < {torch.float32: 1e-3, torch.float16: 1e-2}[dtype]
    logits.sum().backward()
    assert masks.grad.isfinite().all()
    assert masks.grad[:, 1].all(), "nothing would bring a mask back"


@pytest.mark.parametrize("build", [ours, masked])
@pytest.mark.parametrize("sides", [(32, 32), (96, 160), (224, 32)])
@torch.no_grad()
def test_shapes_of_sizes_that_the_multiple_divides(build, sides):
    model = build()
    rows, columns = sides[0] // model.stride, sides[1] // model.stride
    learned = model.learn(images(*sides, batch=3))
    assert learned.logits.shape == (3, 7, rows, columns)
    layers = model.config.layers + (model.config.attention == "masked")  # which answers before its first layer, too
    shapes = [(tuple(classes.shape), tuple(masks.shape)) for classes, masks in learned.queries]
    assert shapes == [((3, 5, 8), (3, 5, rows, columns))] * layers
    assert torch.equal(learned.logits, model(images(*sides, batch=3)))


BACKBONES = {
    "pvt-micro": {"image": 32, "widths": (4, 6, 8, 10), "heads": (1, 2, 2, 5), "depths": (1, 1, 1, 1)},
    "vit-micro": {"stem": (5, 6, 7, 8), "width": 12, "heads": 3, "layers": 1, "hidden": 7},
    "swin-micro": SWIN,
}


@pytest.mark.parametrize("build", [ours, masked])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_weight_learns_whatever_the_backbone(build, backbone):
    model = build(backbone=backbone, changes=BACKBONES[backbone], classes=3).train()
    learned = model.learn(images(64, 96))
    parts = [learned.logits, *(one for pair in learned.queries for one in pair)]
    sum((part * torch.randn(part.shape)).mean() for part in parts).backward()
    still = [name for name, weight in model.named_parameters() if weight.grad is None]
    assert not still
    assert not [name for name in model.state_dict() if ".head." in name or name == "backbone.norm.weight"][
        backbone == "vit-micro" :
    ], "what classifies is left out; a ViT's norm makes its maps"
    assert model.stride == 4


@torch.no_grad()
def test_a_cnn_is_a_backbone_and_says_how_it_sees_images():
    model = ours("efficientnet-lite0", {}, image=64)
    assert model.normalisation == create("efficientnet-lite0").normalisation
    assert model(images(64, 96)).shape == (2, 7, 16, 24)
    assert not [name for name in model.state_dict() if name.startswith(("backbone.top", "backbone.head"))]
    assert ours().normalisation == ((0.523, 0.453, 0.345), (0.210, 0.199, 0.154))


@torch.no_grad()
def test_maps_of_a_swin_are_those_of_the_classifier_where_windows_fit():
    model = ours()
    other = Swin(SwinConfig(**SWIN, classes=1)).eval()
    assert not other.load_state_dict(model.backbone.state_dict(), strict=False).unexpected_keys
    for sides, same in (((288, 384), True), ((64, 64), False)):  # of a single window, only this one is shifted
        pairs = zip(model.backbone.features(images(*sides)), other.features(images(*sides)), strict=True)
        apart = [float((one - two).abs().max()) for one, two in pairs]
        assert (max(apart) < 1e-5) == same


@torch.no_grad()
def test_all_attention_goes_through_the_core():
    from foveal.core.watch import watch

    model, x = masked(), images(96, 160)
    with watch(model, layers="decoder.*") as seen:
        logits = model(x)
    assert sorted({name.split(".")[3] for name in seen}) == ["cross_attention", "self_attention"]
    assert len(seen) == 2 * 3
    first = seen["decoder.layers.0.cross_attention.layer.attention"].weights
    assert first.shape == (2, 4, 5, 3 * 5)  # stride 32 first
    hidden = first == 0
    assert hidden.any(), "no mask hides anything"
    assert (hidden == hidden[:, :1]).all(), "a mask is the same for all heads"
    assert seen["decoder.layers.1.cross_attention.layer.attention"].weights.shape == (2, 4, 5, 6 * 10)
    assert torch.equal(logits, model(x))


def test_heads_are_removed_for_good():
    from foveal.models.heads import head_layers, remove_heads, without_heads

    model, x = ours(), images(64, 96)
    number = [id(layer) for layer in head_layers(model)].index(
        id(model.decoder.layers[1].cross_attention.layer.attention)
    )
    with torch.no_grad():
        whole = model(x)
        with without_heads(model, {number: [1, 3]}):
            silent = model(x)
        remove_heads(model, {number: [1, 3]})
        assert (model(x) - silent).abs().max() < 1e-5
    assert (whole - silent).abs().max() > 1e-3
    assert isinstance(head_layers(model)[number], MultiHead)
    assert head_layers(model)[number].heads == 2


@pytest.mark.parametrize("build", [ours, masked])
def test_a_file_gives_the_same_model(build, tmp_path):
    assert is_loaded(build(), images(64, 96), tmp_path)


def test_a_model_of_another_dtype_comes_back_and_checks_its_images(tmp_path):
    model, x = ours().double(), images(64, 96)
    family, config = describe(model)
    save_model(model, tmp_path / "m", Card(task="", model=family, family=family, config=config))
    again, _ = load_model(tmp_path / "m", Card)
    with torch.no_grad():
        assert (again(x.double()) - model(x.double())).abs().max() < 1e-12
    for one in (again, copy.deepcopy(again)):  # the backbone without its classifier finds out of which dtype it is
        with pytest.raises(
            FovealError, match=r"MaskFormer's images: expected torch\.float64, as its weights, got torc"
        ):
            one(x)
        with pytest.raises(FovealError, match=r"Swin's images: expected torch\.float64, as its weights, got torch\.f"):
            one.backbone.features(x)


def test_names():
    own = {"maskformer-swin-tiny", "maskformer-swin-base", "maskformer-micro", "mask2former-micro"}
    assert set(PRESETS) == own <= set(presets_of("images to maps"))
    assert own <= set(list_models("mask*"))
    assert config_of("mask2former-micro").attention == "masked"
    assert config_of("mask2former-micro").dropout == 0, "as its paper has none"


@pytest.mark.parametrize("name", ["maskformer-micro", "mask2former-micro"])
def test_micro_is_small(name):
    assert is_small(name)


@pytest.mark.slow
@pytest.mark.parametrize("build", [ours, masked])
@torch.no_grad()
def test_onnx_of_any_size_equals_torch(build):
    # What a graph is made with must have several windows on every map; what it is run on need not.
    model = build(changes=SWIN | {"depths": (2, 1, 1, 1)}, groups=4)  # of one channel each, some see a cell or two
    others = images(64, 96, batch=1), images(160, 32, batch=3), images(224, 352)
    assert by_onnx(model, images(160, 224), *others) < 1e-4


@pytest.mark.usefixtures("no_scipy")
@torch.no_grad()
def test_the_command_converts_there_and_back_and_transformers_opens_it(tmp_path, capsys):
    from transformers import AutoImageProcessor, MaskFormerForInstanceSegmentation

    model, names = ours(classes=3), ("background", "crack", "wurzel·ß")
    family, config = describe(model)
    facts = {"classes": names, "size": 96, "mean": (0.1, 0.2, 0.3), "std": (0.4, 0.5, 0.6), "multiple": 32}
    save_model(model, tmp_path / "a", SegmentCard(model="maskformer-micro", family=family, config=config, **facts))
    assert main(["convert", str(tmp_path / "a"), "--to", "transformers", "--out", str(tmp_path / "theirs")]) == 0
    other = MaskFormerForInstanceSegmentation.from_pretrained(tmp_path / "theirs").eval()
    assert other.config.id2label == dict(enumerate(names))
    x = images(64, 96)
    assert (other(x).masks_queries_logits - model.learn(x).queries[0][1]).abs().max() < 1e-4
    pixels = AutoImageProcessor.from_pretrained(tmp_path / "theirs")
    assert "MaskFormer" in type(pixels).__name__
    capsys.readouterr()
    again = ["--from", "transformers", "--out", str(tmp_path / "b")]
    assert main(["convert", str(tmp_path / "theirs"), *again]) == 0
    assert "mean and deviation of pixels are of preprocessor_config.json" in capsys.readouterr().out
    back, card = load_model(tmp_path / "b", SegmentCard)
    assert torch.equal(back(x), model(x))
    assert (card.classes, card.size, card.multiple, card.mean) == (names, 96, 32, (0.1, 0.2, 0.3))


@pytest.mark.usefixtures("no_scipy")
def test_what_ours_cannot_be_is_refused():
    other = theirs()
    facts, weights = other.config.to_dict(), other.state_dict()
    within, below = facts["decoder_config"], facts["backbone_config"]
    for changes, message in (
        ({"backbone_config": {"model_type": "resnet"}}, "backbone_config: expected that of a 'swin', got 'resnet'"),
        ({"backbone_config": None}, "the config's backbone_config: expected that of a 'swin', got None"),
        ({"backbone_config": below | {"hidden_act": "relu"}}, "the config's hidden_act: expected 'gelu', got 'relu'"),
        ({"decoder_config": None}, "the config's decoder_config: expected that of a 'detr', got None"),
        ({"decoder_config": within | {"auxiliary_loss": True}}, "auxiliary_loss of its decoder: expected False, got T"),
        ({"decoder_config": within | {"num_queries": 6}}, r"of decoder.places: expected \(6, 24\), got \(5, 24\)"),
        ({"decoder_config": within | {"decoder_layers": 10**9}}, "the config: expected at most "),
        ({"fpn_feature_size": 33}, "MaskFormer's groups: expected a divisor of the pixel_width 33, got 32"),
    ):
        with pytest.raises(FovealError, match=message):
            from_transformers(facts | changes, weights)
    missing = {name: tensor for name, tensor in weights.items() if name != "mask_embedder.1.0.bias"}
    with pytest.raises(FovealError, match=r"the weights: expected embed.2.bias, got none of that name"):
        from_transformers(facts, missing)


def test_what_theirs_cannot_be_is_refused():
    for model, message in (
        (masked(), "the model's attention: expected 'full', as MaskFormer has it, got 'masked'"),
        (ours(groups=8), "the model's groups: expected 32, as transformers has them, got 8"),
        (ours("pvt-micro", BACKBONES["pvt-micro"]), "the model's backbone: expected a Swin, as transformers has it"),
    ):
        with pytest.raises(FovealError, match=message):
            to_transformers(model)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 1}, "MaskFormer's classes: expected at least 2, of which the first is the background, got 1"),
        ({"queries": 0}, "MaskFormer's queries: expected at least 1, got 0"),
        ({"heads": 5}, "MaskFormer's heads: expected a divisor of the width 24, got 5"),
        ({"groups": 5}, "MaskFormer's groups: expected a divisor of the pixel_width 32, got 5"),
        ({"width": 22, "heads": 2}, "MaskFormer's width: expected a multiple of 4, for sines and cosines"),
        ({"dropout": 1}, "MaskFormer's dropout: expected at least 0 and below 1, got 1"),
        ({"attention": "masks"}, "no attention of a MaskFormer is called 'masks'; the nearest is 'masked'"),
        ({"backbone": "swim-micro"}, "no backbone is called 'swim-micro'; the nearest is 'swin-micro'"),
        ({"backbone": "unet-8"}, "no backbone is called 'unet-8'"),
        ({"changes": {"windw": 3}}, "no field of swin-micro's config is called 'windw'; the nearest is 'window'"),
        ({"changes": {"classes": 3}}, "the backbone's config: expected fields but its classes"),
        ({"changes": 3}, "the backbone's config: expected fields but its classes, such as {'window': 12}, got 3"),
        (
            {"backbone": "xie-2019", "changes": {"image": 33}},
            "Peer's image: expected a multiple of 32, got 33",
        ),
    ],
)
def test_what_cannot_be_built_is_named_in_one_line(changes, message):
    with pytest.raises(FovealError) as caught:
        ours(**changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_images_that_do_not_fit_are_named_in_one_line():
    model = ours()
    for given, message in (
        (torch.zeros(1, 4, 64, 64), r"MaskFormer's images: expected \(B, 3, h, w\) .* got \(1, 4, 64, 64\)"),
        (torch.zeros(1, 3, 64, 64, dtype=torch.uint8), "expected torch.float32, as its weights, got torch.uint8"),
        (None, "got None"),
    ):
        for call in (model, model.learn, model.features):
            with pytest.raises(FovealError, match=message):
                call(given)
