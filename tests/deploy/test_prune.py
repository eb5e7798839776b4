"""Pruning to a target: how near it comes, what it may not touch, and that the right channels go:
copies that nobody reads.
"""

import copy

import pytest
import torch
from cards import classify_card
from grid import first_is_quick
from torch import nn

import foveal.deploy.prune as source
from foveal.deploy.measure.cost import parameters
from foveal.deploy.prune import _groups, _pruned, counter, prune
from foveal.errors import FovealError
from foveal.models.shrink import query_of
from foveal.models.store import describe, load_for, load_model, save_model, shapes_of
from foveal.models.xie import SIDE as SIDE_OF_XIE
from foveal.models.zoo import create
from foveal.tasks.classify.card import ClassifyCard
from foveal.vision.same_shape import SAME_SHAPE

pytest.importorskip("torch_pruning")
SIDE = 64
PEERS = ("resnet-18", "efficientnet-b0", "mobilenet-v2", "mobilevit-xxs", "deit-tiny")
NAMES = ("icam-31k", "icam-30k", "efficientnet-lite0", "mobilenet-v3-s", "mobilenet-v4-s", "xie-2019", *PEERS)
BUILDS = {name: (name, {}) for name in NAMES} | {
    "several queries": ("icam-31k", {"queries": 3, "layers": 1}),
    "two cells a patch": ("icam-31k", {"pool": 2, "position": "polar", "first": "static"}),
    "positions in keys only": ("icam-31k", {"first": "adaptive", "value_position": False}),
    "another's Φ": ("icam-31k", {"phi": "resnet-18:1"}),
    "attention on the map": ("icam-31k", {"attention": "DynamicMixture"}),
}


def built(name, **settings):
    if name in (*PEERS, "vit-24") or "phi" in settings:
        pytest.importorskip("transformers")
    torch.manual_seed(0)
    image = {"image": SIDE} if not name.startswith("icam") else {"image": SIDE, "patch": 16}
    return create(name, classes=4, **image, **settings).eval()


def some_images(count=3):
    """Each of a colour of its own, and noise."""
    random = torch.Generator().manual_seed(1)
    return torch.randn(count, 3, SIDE, SIDE, generator=random) + 2 * torch.randn(count, 3, 1, 1, generator=random)


@pytest.fixture(scope="module")
def icam():
    return built("icam-31k")


TARGETS = [  # each peer costs seconds, so each has one unit and one importance
    ("icam-31k", "parameters", "l1"),
    ("icam-31k", "flops", "fpgm"),
    ("icam-30k", "parameters", "fpgm"),
    ("efficientnet-lite0", "flops", "fpgm"),
    ("resnet-18", "parameters", "l1"),
    ("efficientnet-b0", "flops", "l1"),
    ("mobilenet-v2", "parameters", "fpgm"),
    ("mobilevit-xxs", "flops", "l1"),
    ("deit-tiny", "parameters", "l1"),
]


@pytest.mark.parametrize(("name", "unit", "by"), first_is_quick(TARGETS))
def test_the_target_is_met_from_below_and_the_classes_stay(name, unit, by, icam):
    model, cost = built(name), counter(unit)
    target = cost(model) // 2 if name.startswith("icam") else cost(icam)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    pruned = prune(model, target, unit, by)
    assert 0.95 * target <= cost(pruned) <= target
    with torch.no_grad():
        assert pruned(some_images()).shape == (3, 4)
    assert all(torch.equal(before[key], tensor) for key, tensor in model.state_dict().items()), (
        "the model itself is left alone"
    )
    pruned.train()(some_images()).sum().backward()
    assert all(weight.grad is not None for weight in pruned.parameters()), "it can be trained"


@pytest.mark.parametrize("build", BUILDS)
@torch.no_grad()
def test_a_pruned_model_is_saved_and_opened_like_any_other(build, tmp_path):
    name, settings = BUILDS[build]
    pruned = thinner(built(name, **settings))
    file = tmp_path / "pruned.safetensors"
    save_model(pruned, file, card_of(pruned))
    opened, card = load_model(file, ClassifyCard)
    assert card.shapes
    assert card.config == describe(built(name, **settings))[1], "of the whole one"
    assert same(opened, pruned)
    assert sizes(opened) == sizes(pruned)
    assert shapes_of(opened) == card.shapes


@torch.no_grad()
def same(one, other):
    """Bit by bit, and in what they say: kernels round by where a tensor lies in memory."""
    mine, theirs = one.state_dict(), other.state_dict()
    equal = list(mine) == list(theirs) and all(torch.equal(mine[key], theirs[key]) for key in mine)
    return equal and torch.allclose(one.eval()(some_images()), other.eval()(some_images()), rtol=1e-5, atol=1e-6)


def thinner(model, by="l1"):
    groups = _groups(model)
    return _pruned(model, [max(1, size // 3) for _, size in groups], groups, by)


def card_of(model, **changes):
    family, config = describe(model)
    classes = tuple(f"class {number}" for number in range(config["classes"]))
    return classify_card(
        **{
            "model": "some",
            "family": family,
            "config": config,
            "classes": classes,
            "size": SIDE,
            "shapes": shapes_of(model),
        }
        | changes
    )


def sizes(model):
    """What modules say of themselves."""
    return [
        part.extra_repr()
        for part in model.modules()
        if isinstance(part, (nn.Linear, nn.Conv2d, nn.BatchNorm2d, nn.LayerNorm))
    ]


@pytest.mark.parametrize(("name", "classes"), [("icam-31k", 2), ("icam-31k", 4), ("icam-31k", 9), ("mobilenet-v2", 9)])
def test_a_pruned_model_is_trained_for_another_number_of_classes(name, classes, tmp_path):
    pruned, file = thinner(built(name)), tmp_path / "pruned.safetensors"
    save_model(pruned, file, card_of(pruned))
    model = load_for(file, ClassifyCard, classes=classes)
    assert model(some_images()).shape == (3, classes)
    mine, theirs = model.state_dict(), pruned.state_dict()
    alike = [key for key in mine if mine[key].shape == theirs[key].shape]
    assert len(mine) - len(alike) == (0 if classes == 4 else 2), "the last weight and bias are new"
    assert all(torch.equal(mine[key], theirs[key]) for key in alike)
    assert model.config.classes == classes
    save_model(model, file, card_of(model))
    assert same(load_model(file, ClassifyCard)[0], model)


def test_a_model_that_was_not_pruned_describes_no_shapes(icam):
    assert shapes_of(icam) == {}


SHAPES = {
    "of nothing": ({"nothing": [3]}, "expected those of its own tensors, got one of 'nothing'"),
    "too large": ({"embed.weight": [24, 25]}, "the shape of embed.weight: expected one within (24, 24), got (24, 25)"),
    "of another rank": ({"embed.weight": [24]}, "expected one within (24, 24), got (24,)"),
    "that do not fit each other": ({"embed.weight": [24, 7]}, "expected shapes that fit each other"),
    "half a head": ({"layers.0.attention.layer.out.weight": [24, 6]}, "expected shapes that fit each other"),
    "no numbers": ({"embed.weight": ["a", 7]}, "a shape of 'embed.weight' in integers above 0"),
    "empty": ({"embed.weight": [0, 7]}, "a shape of 'embed.weight' in integers above 0"),
    "no map": ([], "a card whose shapes has names and values"),
}


@pytest.mark.parametrize("case", SHAPES)
def test_a_file_with_shapes_that_cannot_be(case, icam, tmp_path):
    shapes, words = SHAPES[case]
    save_model(icam, tmp_path / "m.safetensors", card_of(icam, shapes=shapes))
    with pytest.raises(FovealError) as caught:
        load_model(tmp_path / "m.safetensors", ClassifyCard)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_with_other_shapes_than_its_tensors(icam, tmp_path):
    pruned = thinner(icam)
    save_model(icam, tmp_path / "m.safetensors", card_of(pruned))
    with pytest.raises(FovealError, match="expected the weights of a some, got others"):
        load_model(tmp_path / "m.safetensors", ClassifyCard)


def test_l1_keeps_the_channels_of_the_largest_weights(icam):
    model = copy.deepcopy(icam)
    with torch.no_grad():
        large = torch.tensor([10.0 if number in (2, 3, 5, 11) else 1.0 for number in range(14)])
        model.head[0].weight *= large[:, None]
        model.head[3].weight *= large
    groups = _groups(model)
    pruned = _pruned(model, [4 if name == "head.0" else size for name, size in groups], groups, "l1")
    assert torch.equal(pruned.head[0].weight, model.head[0].weight[[2, 3, 5, 11]])
    assert torch.equal(pruned.head[3].weight, model.head[3].weight[:, [2, 3, 5, 11]])


def test_fpgm_spares_what_is_far_from_the_others_also_where_it_is_small(icam):
    model = copy.deepcopy(icam)
    with torch.no_grad():
        model.head[0].weight.copy_(1 + 0.01 * torch.randn(14, 24))
        model.head[3].weight.copy_(1 + 0.01 * torch.randn(4, 14))
        model.head[0].weight[[1, 7]] = 0
        model.head[3].weight[:, [1, 7]] = 0
    groups = _groups(model)
    kept = {
        by: _pruned(model, [12 if name == "head.0" else size for name, size in groups], groups, by)
        for by in ("l1", "fpgm")
    }
    gone = {by: int((pruned.head[0].weight.abs().sum(1) == 0).sum()) for by, pruned in kept.items()}
    assert gone == {"l1": 0, "fpgm": 2}


@pytest.mark.parametrize(
    ("target", "unit", "by", "words"),
    [
        (0, "parameters", "l1", "the target: expected a number of parameters above 0, got 0"),
        (-3, "flops", "l1", "the target: expected a number of flops above 0, got -3"),
        (1.5, "parameters", "l1", "got 1.5"),
        ("many", "parameters", "l1", "got 'many'"),
        (31_500, "parameters", "l1", "expected fewer parameters than the model's own 31,4"),
        (9, "parameters", "l1", "with one channel in every layer, got 9"),
        (9, "grams", "l1", "no unit of a target is called 'grams'"),
        (9, "parameters", "l2", "no importance of channels is called 'l2'; the nearest is 'l1'"),
    ],
)
def test_targets_that_cannot_be(target, unit, by, words, icam):
    with pytest.raises(FovealError) as caught:
        prune(icam, target, unit, by)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_module_of_somebody_elses_needs_an_example():
    with pytest.raises(FovealError, match="expected an example of what a Linear takes, got none; give example="):
        prune(nn.Linear(3, 4), 5)


def with_copies(model):
    """Every odd channel is a copy of the even one before it, and nobody reads it.

    Of queries and keys it is 0, or scores would change.
    """
    silent = [
        part for module in model.modules() if query_of(module) is not None for part in (query_of(module), _keys(module))
    ]
    final = [part for part in model.modules() if isinstance(part, nn.Linear)][-1]
    torch.manual_seed(2)
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, (nn.Linear, nn.Conv2d)):  # new weights are so small that attention is the mean of all
                nn.init.kaiming_normal_(part.weight)
            if isinstance(part, nn.BatchNorm2d):
                for tensor in (part.weight, part.running_var):
                    tensor.uniform_(0.5, 1.5)
                for tensor in (part.bias, part.running_mean):
                    tensor.uniform_(-0.5, 0.5)
            for tensor in _out(part) if part is not final and not _kept(model, part) else ():
                tensor[1::2] = 0 if part in silent else tensor[::2][: len(tensor) // 2]
            if isinstance(part, (nn.Linear, nn.Conv2d)) and part.weight.shape[1] > 3 and not _reads_tokens(model, part):
                part.weight.unflatten(1, (-1, _cells(model, part)))[:, 1::2] = 0
        for tensor in _loose(model):
            tensor[..., 1::2] = tensor[..., ::2]
    return model


def _cells(model, part):
    """How many inputs of a layer are one channel: Xie's network lays its map flat."""
    return SIDE_OF_XIE**2 if part is getattr(getattr(model, "net", None), "hidden", [None])[0] else 1


def _keys(module):
    return getattr(module, "k_proj", None) or module.key


def _out(part):
    if isinstance(part, nn.BatchNorm2d):
        return [part.weight, part.bias, part.running_mean, part.running_var]
    if isinstance(part, (nn.Linear, nn.Conv2d, nn.LayerNorm)):
        return [part.weight, *([] if part.bias is None else [part.bias])]
    return []


def _kept(model, part):
    """The outputs of width C in an ICAM, which stay."""
    if not hasattr(model, "embed"):
        return False
    tokens = [
        model.embed,
        *model.first.modules(),
        *(one for layer in model.layers for one in layer.attention.modules()),
    ]
    tokens += [layer.feed_forward.layer.outer for layer in model.layers] + [
        layer.feed_forward.norm for layer in model.layers
    ]
    return part in tokens or (part is model.out and model.config.queries > 1)


def _reads_tokens(model, part):
    if not hasattr(model, "embed"):
        return False
    tokens = [one for layer in model.layers for one in layer.attention.modules()] + [model.out]
    tokens += [layer.feed_forward.layer.inner for layer in model.layers]
    tokens += [getattr(model.first, name) for name in ("k", "v") if hasattr(model.first, name)]
    return part in tokens or (part is model.head[0] and model.config.queries > 1)


def _loose(model):
    """Parameters outside of layers whose last axis are channels that are read."""
    if hasattr(model, "first"):
        return [model.first.latent]
    return [tensor for name, tensor in model.named_parameters() if name.endswith(("cls_token", "position_embeddings"))]


@pytest.mark.parametrize("build", BUILDS)
@torch.no_grad()
def test_channels_that_are_copies_which_nobody_reads_go_and_nothing_changes(build, monkeypatch):
    monkeypatch.setattr(source, "_importance", lambda by: lambda group: 1.0 - torch.arange(len(group[0].idxs)) % 2)
    name, settings = BUILDS[build]
    model = with_copies(built(name, **settings)).double()
    groups = _groups(model.float())
    pruned = _pruned(model.float(), [size // 2 for _, size in groups], groups, "l1")
    assert parameters(pruned) < 0.8 * parameters(model)
    images = some_images().double()
    expected = model.double()(images)
    assert (expected[0] - expected[1]).abs().max() > 1e-4 * expected.abs().max(), (
        "images differ in what is said of them"
    )
    torch.testing.assert_close(pruned.double()(images), expected, rtol=1e-6, atol=1e-7 * float(expected.abs().max()))


@pytest.mark.parametrize(
    ("name", "by"), [("icam-31k", "l1"), ("icam-31k", "fpgm"), ("mobilevit-xxs", "l1"), ("vit-24", "fpgm")]
)
def test_as_many_channels_are_left_as_are_asked_for_in_every_head_and_both_halves_of_a_gate(name, by):
    model = built(name)
    groups = _groups(model)
    asked = {place: max(1, full // 3) for place, full in groups}
    with torch.no_grad():
        for part in model.modules():  # a bias tells which output it belongs to
            if isinstance(part, nn.Linear):
                part.bias.copy_(torch.arange(len(part.bias)))
    pruned = dict(_pruned(model, list(asked.values()), groups, by).named_modules())
    before = dict(model.named_modules())
    seen = 0
    for place, full in groups:
        parts = before[place].weight.shape[0] // full  # heads, or halves
        assert pruned[place].weight.shape[0] == parts * asked[place]
        if parts > 1:
            scale = (asked[place] / full) ** 0.5 if place.endswith(".query") else 1.0  # MobileViT's has its √ inside
            rows = (pruned[place].bias / scale).round().int().tolist()
            assert [sum(row // full == part for row in rows) for part in range(parts)] == [asked[place]] * parts
            assert len({tuple(row % full for row in rows if row // full == part) for part in range(parts)}) == 1, (
                "the same of each"
            )
            seen += 1
    assert seen


@pytest.mark.parametrize("name", first_is_quick(list(SAME_SHAPE)))
@torch.no_grad()
def test_attention_on_the_map_stays_as_it_is(name):
    model = built("icam-31k", attention=name)
    target = 8 * parameters(model) // 10
    pruned = prune(model, target)
    assert 0.9 * target <= parameters(pruned) <= target
    kept = model.attention.state_dict()
    assert all(torch.equal(kept[key], tensor) for key, tensor in pruned.attention.state_dict().items())
    assert pruned.phi[-1].project[0].out_channels == 24, "what it is made for"
    assert pruned.phi[0][0].out_channels < 32
    assert pruned(some_images()).shape == (3, 4)


def test_attention_on_the_map_of_anothers_phi_is_refused():
    with pytest.raises(FovealError, match="to prune: expected an Icam with a Φ of its own, or without attention, got"):
        prune(built("icam-31k", phi="resnet-18:1", attention="CBAM"), 20_000)
