"""icam-seg: its equation by torch's functions, its sizes, and what holds for every model that gives maps."""

import dataclasses

import pytest
import torch
from models.segments import by_onnx, is_loaded, joint, normed, stirred, unreached
from models.witness import images, parameters
from torch.nn import functional as F

from foveal.errors import FovealError
from foveal.models.features import gives_maps
from foveal.models.icam_seg import IcamSeg, IcamSegConfig
from foveal.models.mbconv import Stage
from foveal.models.segmenting import learn
from foveal.models.zoo import create
from foveal.tasks.load import list_models

SMALL = IcamSegConfig(
    classes=3,
    image=32,
    stem=5,
    stages=(Stage(7, stride=2, expand=1, squeeze=False), Stage(11, stride=2, expand=2, squeeze=False)),
    path=6,
    refine=0,
    width=10,
    heads=2,
    layers=1,
    hidden=9,
)


def made(config=SMALL):
    torch.manual_seed(0)
    return stirred(IcamSeg(config))


@pytest.mark.parametrize("sides", [(16, 16), (32, 48)])
@torch.no_grad()
def test_it_is_the_equation(sides):
    model, x = made().double(), images(*sides).double()
    state = model.state_dict()
    fine, coarse = model.phi.features(x)[1:]

    def lateral(number, seen):
        name = f"path.{number}.lateral"
        return normed(state, f"{name}.1", F.conv2d(seen, state[f"{name}.0.weight"]))

    top = lateral(0, coarse).relu()
    path = (lateral(1, fine) + top.repeat_interleave(2, 2).repeat_interleave(2, 3)).relu()
    pixels = F.conv2d(path, state["pixels.weight"], state["pixels.bias"])

    def linear(name, y):
        return F.linear(y, state[f"{name}.weight"], state[f"{name}.bias"])

    height, width = top.shape[2] // 2, top.shape[3] // 2
    cells = top.reshape(2, 6, height, 2, width, 2).mean((3, 5)).permute(0, 2, 3, 1)
    content = linear("embed", F.layer_norm(cells, (6,), state["norm.weight"], state["norm.bias"]))
    keys = model.position.embed(content).flatten(1, 2)
    content = content.flatten(1, 2)
    scores = linear("first.q", state["first.latent"]) @ linear("first.k", keys).mT / 10**0.5
    queries = model.layers[0](scores.softmax(-1) @ linear("first.v", content), keys)
    gate = linear("gate", queries[:, 1:])[..., 0]
    classes = (state["common"] + linear("answer", queries)) / 6**0.5
    logits = (classes @ pixels.flatten(2)).view(2, 3, *pixels.shape[2:]) + state["bias"]
    logits[:, 1:] += F.logsigmoid(gate)[..., None, None]
    assert (model(x) - logits).abs().max() < 1e-9
    learned = learn(model, x)
    assert (learned.presence - gate).abs().max() < 1e-9
    assert (learned.boundary - F.conv2d(path, state["boundary.weight"], state["boundary.bias"])).abs().max() < 1e-9
    (deep,) = learned.deep
    assert (deep - F.conv2d(top, state["deep.0.weight"], state["deep.0.bias"])).abs().max() < 1e-9


def test_blocks_of_the_path_are_inverted_residuals_that_add_to_it():
    with torch.no_grad():
        model = made(dataclasses.replace(SMALL, refine=1))
        state, x = model.state_dict(), torch.randn(2, 6, 5, 7)
        step, name = model.path[0].refine[0], "path.0.refine.0"
        wide = joint(state, f"{name}.expand", x)
        seen = normed(
            state, f"{name}.depthwise.1", F.conv2d(wide, state[f"{name}.depthwise.0.weight"], padding=1, groups=12)
        )
        y = normed(state, f"{name}.project.1", F.conv2d(seen.relu(), state[f"{name}.project.0.weight"]))
        assert (step(x) - (x + y)).abs().max() < 1e-5


def test_the_presets_are_as_small_as_they_say():
    assert {"icam-seg", "icam-seg-small"} <= set(list_models("icam-seg*"))
    assert parameters(create("icam-seg", classes=6)) <= 100_000
    assert parameters(create("icam-seg", classes=16)) <= 100_000
    assert parameters(create("icam-seg-small", classes=16)) <= 500_000


def test_it_gives_maps_and_tokens_are_few():
    model = create("icam-seg", classes=3).eval()
    assert gives_maps(model)
    assert (model.strides, model.widths, model.stride, model.multiple) == ((4, 8, 16), (32, 48, 64), 4, 32)
    with torch.no_grad():
        coarse = model.see(torch.zeros(1, 3, 256, 256))[0]
    assert (coarse.shape[2] // 2) * (coarse.shape[3] // 2) == 64


def test_gradients_reach_every_parameter():
    assert unreached(made(), images(32, 16)) == []


def test_a_gate_that_is_shut_leaves_no_pixel_of_its_class():
    model, x = made(), images(32, 32)
    with torch.no_grad():
        model.gate.weight.zero_()
        model.gate.bias.fill_(-40.0)
        assert (model(x).argmax(1) == 0).all()


def test_without_its_gate_the_classes_stand_as_they_are():
    model, plain, x = made(), IcamSeg(dataclasses.replace(SMALL, gate=False)).eval(), images(32, 16)
    state = model.state_dict()
    left = plain.load_state_dict(state, strict=False)
    assert (left.missing_keys, left.unexpected_keys) == ([], ["gate.weight", "gate.bias"])
    with torch.no_grad():
        learned = learn(model, x)
        logits = learned.logits.clone()
        logits[:, 1:] -= F.logsigmoid(learned.presence)[..., None, None]
        assert (plain(x) - logits).abs().max() < 1e-5
        assert learn(plain, x).presence is None


def test_without_what_images_have_in_common_a_class_is_what_this_one_adds():
    model, plain, x = made(), IcamSeg(dataclasses.replace(SMALL, common=False)).eval(), images(32, 16)
    left = plain.load_state_dict(model.state_dict(), strict=False)
    assert (left.missing_keys, left.unexpected_keys) == ([], ["common"])
    with torch.no_grad():
        assert (plain(x) - model(x)).abs().max() > 1e-3
        model.common.zero_()
        assert (plain(x) - model(x)).abs().max() < 1e-6


def test_without_layers_a_query_is_its_first_look():
    plain, x = made(dataclasses.replace(SMALL, layers=0)), images(32, 16)
    with torch.no_grad():
        content = plain.embed(plain.norm(F.avg_pool2d(plain.see(x)[0], 2).permute(0, 2, 3, 1)))
        memory = plain.position.embed(content).flatten(1, 2)
        first = plain.first(torch.nn.Identity(), memory, content.flatten(1, 2))
        assert torch.equal(plain.gather(plain.see(x)[0]), first)


@pytest.mark.parametrize("changes", [{"gate": False}, {"common": False}, {"layers": 0}])
def test_gradients_reach_every_parameter_of_what_is_left(changes):
    assert unreached(made(dataclasses.replace(SMALL, **changes)), images(32, 16)) == []


def test_fields_that_are_not_given_are_those_of_before():
    """Which weights are drawn, and in which order, is as it was: files and seeds stay what they are."""
    torch.manual_seed(0)
    model = IcamSeg(SMALL)
    torch.manual_seed(0)
    bare = IcamSeg(dataclasses.replace(SMALL, common=False)).state_dict()
    assert all(torch.equal(bare[name], one) for name, one in model.state_dict().items() if name != "common")


def test_it_is_saved_and_loaded(tmp_path):
    assert is_loaded(made(), images(16, 32), tmp_path)


@pytest.mark.slow
def test_onnx_on_any_size():
    assert by_onnx(made(), images(32, 48), images(16, 80, batch=3), images(64, 64, batch=1)) < 1e-4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": 1}, "IcamSeg's classes: expected at least 2"),
        ({"heads": 3}, "a divisor of the width 10"),
        ({"dropout": 1.0}, "at least 0 and below 1"),
        ({"stages": (Stage(7, stride=2, squeeze=False),)}, "strides 4, 8, …"),
        ({"stages": (Stage(7, squeeze=False), Stage(7, squeeze=False))}, "strides 4, 8, …"),
        ({"stem": 0}, "IcamSeg's stem"),
        ({"layers": -1}, "IcamSeg's layers"),
        ({"gate": 1}, "IcamSeg's gate: expected True or False, got 1"),
    ],
)
def test_bad_fields(changes, words):
    with pytest.raises(FovealError, match=words):
        IcamSeg(dataclasses.replace(SMALL, **changes))


def test_an_image_that_it_cannot_halve():
    with pytest.raises(FovealError, match="sides that 16 divides, got \\(32, 24\\); pad them"):
        made()(images(32, 24))
