"""Feature maps: what every image model gives, and what the adapter makes of others'."""

import types

import pytest
import torch
from torch import nn

from foveal.errors import FovealError
from foveal.models.backbone import backbone
from foveal.models.features import Features, gives_maps, probe
from foveal.models.mbconv import Stage, Stages
from foveal.models.patches import cut
from foveal.models.zoo import create

PYRAMID = (4, 8, 16, 32)
MODELS = {  # strides and widths
    "efficientnet-lite0": (PYRAMID, (24, 40, 112, 320)),
    "efficientnet-lite2": (PYRAMID, (24, 48, 120, 352)),
    "resnet-18": (PYRAMID, (64, 128, 256, 512)),
    "mobilenet-v2": (PYRAMID, (24, 32, 96, 320)),
    "efficientnet-b0": (PYRAMID, (24, 40, 112, 320)),
    "mobilevit-xxs": (PYRAMID, (24, 48, 64, 80)),
    "mobilenet-v3-s": (PYRAMID, (16, 24, 48, 96)),
    "mobilenet-v4-s": (PYRAMID, (32, 64, 96, 128)),
    "xie-2019": (PYRAMID, (128, 128, 128, 128)),
    "deit-tiny": ((16,), (192,)),
    "vit-24": ((16,), (24,)),
    "vit-micro": (PYRAMID, (64,) * 4),
    "swin-micro": (PYRAMID, (16, 32, 64, 128)),
    "pvt-micro": (PYRAMID, (16, 32, 48, 96)),
    "icam-31k": ((2, 4), (16, 24)),
    "icam-lite": ((2, 4, 8), (16, 24, 40)),
    "icam-fast": ((4, 8), (64, 32)),
}
OURS = ("icam", "efficientnet-lite", "mobilenet-v3", "mobilenet-v4", "xie", "vit-micro", "swin", "pvt")


def made(name, **changes):
    if not name.startswith(OURS):
        pytest.importorskip("transformers")
    torch.manual_seed(0)
    patch = {"patch": 32, "pool": 1} if name.startswith("icam") else {}
    return create(name, classes=5, image=64, **patch, **changes).eval()


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_maps_are_as_the_model_says_the_finest_first(name):
    model, (strides, widths) = made(name), MODELS[name]
    assert gives_maps(model)
    assert (model.strides, model.widths) == (strides, widths)
    high, wide = (64, 64) if strides == (16,) else (96, 64)
    maps = model.features(torch.randn(3, 3, high, wide))
    assert [tuple(one.shape) for one in maps] == [
        (3, width, high // stride, wide // stride) for stride, width in zip(strides, widths, strict=True)
    ]


LAST = {  # what the model itself makes of its last map
    "efficientnet-lite0": lambda model, x: model.head(model.top(x).mean((2, 3))),
    "resnet-18": lambda model, x: model.net.classifier(model.net.resnet.pooler(x)),
    "mobilenet-v2": lambda model, x: model.net.classifier(model.net.mobilenet_v2.conv_1x1(x).mean((2, 3))),
    "mobilevit-xxs": lambda model, x: model.net.classifier(model.net.mobilevit.conv_1x1_exp(x).mean((2, 3))),
    "mobilenet-v4-s": lambda model, x: model.net.classifier(
        model.net.head(model.net.top(x).mean((2, 3), keepdim=True)).flatten(1)
    ),
    "xie-2019": lambda model, x: model.net.classifier(
        model.net.hidden(nn.functional.adaptive_avg_pool2d(x, 8).flatten(1))
    ),
}


@pytest.mark.parametrize("name", LAST)
@torch.no_grad()
def test_the_answer_is_made_of_the_last_map(name):
    model, images = made(name), torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(LAST[name](model, model.features(images)[-1]), model(images), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["resnet-18", "mobilenet-v2", "efficientnet-b0", "mobilevit-xxs"])
@torch.no_grad()
def test_a_map_is_the_last_of_its_stride(name):
    model, images = made(name), torch.randn(1, 3, 64, 64)
    seen = model.net(pixel_values=images, output_hidden_states=True).hidden_states
    for stride, one in zip(model.strides, model.features(images), strict=True):
        assert torch.equal([state for state in seen if state.shape[2] == 64 // stride][-1], one)


@torch.no_grad()
def test_cells_of_a_vit_stand_where_the_image_has_them():
    """Without attention and position, a patch is seen by its own cell and no other."""
    model = made("vit-24")
    for layer in model.net.vit.layers:
        for weight in layer.attention.parameters():
            weight.zero_()
    model.net.vit.embeddings.position_embeddings.zero_()
    images = torch.zeros(1, 3, 64, 64)
    changed = images.clone()
    changed[..., 16:32, 48:64] = torch.randn(3, 16, 16)
    moved = (model.features(images)[0] != model.features(changed)[0]).any(1)[0]
    assert moved.nonzero().tolist() == [[1, 3]]


@torch.no_grad()
def test_a_map_of_icam_is_its_patches_put_together():
    model, images = made("icam-31k"), torch.randn(2, 3, 64, 96)
    patches, rows, columns = cut(images, 32)
    seen, last = model.phi(patches), model.features(images)[-1]
    assert last.shape == (2, 24, 16, 24)
    for row in range(rows):
        for column in range(columns):
            part = last[1, :, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
            assert torch.equal(part, seen[(rows + row) * columns + column])


@torch.no_grad()
def test_stages_give_the_last_map_of_each_stride():
    stages = Stages(5, (Stage(7, blocks=2), Stage(11, stride=3), Stage(13)), stride=1).eval()
    assert (stages.strides, stages.widths) == ((1, 3), (7, 13))
    x = torch.randn(2, 3, 12, 9)
    first, last = stages.features(x)
    assert torch.equal(first, stages[2](stages[1](stages[0](x))))
    assert torch.equal(last, stages(x))


@torch.no_grad()
def test_somebody_elses_start():
    pytest.importorskip("transformers")
    start = backbone("resnet-18:2").eval()
    assert (start.strides, start.widths) == ((8,), (128,))
    x = torch.randn(1, 3, 32, 48)
    assert torch.equal(start.features(x)[0], start(x))
    model = made("icam-31k", phi="resnet-18:2")
    assert (model.strides, model.widths) == ((8,), (128,))
    assert model.features(torch.randn(1, 3, 64, 64))[0].shape == (1, 128, 8, 8)


class Halves(nn.Sequential):
    """A tiny CNN of three halvings."""

    def __init__(self):
        super().__init__(*(nn.Conv2d(wide, out, 2, 2) for wide, out in ((3, 5), (5, 7), (7, 11))))
        self.norm = nn.BatchNorm2d(11)


class Many(Halves):
    """The same, which gives its maps as others do, the coarsest first."""

    kind = list

    def forward(self, images):
        first = self[0](images)
        second = self[1](first)
        maps = [self.norm(self[2](second)), second, first]
        if self.kind is dict:
            return {str(number): one for number, one in enumerate(maps)}
        return types.SimpleNamespace(feature_maps=maps) if self.kind is object else maps


@pytest.mark.parametrize("kind", [list, dict, object])
def test_what_others_give_is_put_in_order(kind):
    module = Many().train()
    module.kind = kind
    model, images = Features(module), torch.randn(2, 3, 16, 24)
    assert (model.strides, model.widths, model.width) == ((2, 4, 8), (5, 7, 11), 11)
    assert [tuple(one.shape) for one in model.features(images)] == [(2, 5, 8, 12), (2, 7, 4, 6), (2, 11, 2, 3)]
    assert torch.equal(model.eval()(images), model.features(images)[-1])


def test_finding_out_leaves_the_module_as_it_is():
    module = Many().train()
    module[1].eval()
    Features(module)
    assert module.norm.num_batches_tracked == 0
    assert [part.training for part in module.modules()] == [True, True, False, True, True]
    assert all(weight.grad is None for weight in module.parameters())


def test_inner_layers_by_name():
    module = Halves()
    model, images = Features(module, ["1", "0"]), torch.randn(2, 3, 16, 24)
    assert (model.strides, model.widths) == ((2, 4), (5, 7))
    first, second = model.features(images)
    assert torch.equal(first, module[0](images))
    assert torch.equal(second, module[1](first))
    assert not any(part._forward_hooks for part in module.modules())
    second.sum().backward()
    assert module[0].weight.grad is not None


@torch.no_grad()
def test_an_adapter_is_a_phi():
    model = create("icam-31k", classes=5, image=64, patch=32)
    taken = type(model)(model.config, phi=Features(Halves(), ["0", "1"])).eval()
    images = torch.randn(2, 3, 64, 64)
    assert taken(images).shape == (2, 5)
    assert (taken.strides, taken.widths) == ((2, 4), (5, 7))
    assert [one.shape[2] for one in taken.features(images)] == [32, 16]


@torch.no_grad()
def test_a_phi_without_the_protocol_gives_one_map():
    phi = nn.Sequential(nn.Conv2d(3, 7, 4, 4))
    phi.width, phi.features = 7, nn.Identity()  # a part that is called as the method, as in torchvision
    assert not gives_maps(phi)
    config = create("icam-31k", classes=5, image=64, patch=32).config
    model = type(create("icam-31k"))(config, phi=phi).eval()
    assert (model.strides, model.widths) == ((4,), (7,))
    images = torch.randn(1, 3, 64, 64)
    torch.testing.assert_close(model.features(images)[0], phi[0](images))


@pytest.mark.parametrize(
    ("module", "layers", "message"),
    [
        ("a", (), "Features' module: expected a module of torch's, got 'a'"),
        (Halves(), ["3"], "no layer is called '3'"),
        (
            nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 7)),
            (),
            "the feature maps of Sequential: expected (B, C, h, w), got (1, 7); name the layers that give them",
        ),
        (Halves(), ["norm"], "the feature maps of Halves: expected at least one, got none"),
    ],
)
def test_what_gives_no_maps_is_named_in_one_line(module, layers, message):
    if isinstance(module, Halves):
        del module.norm
        module.norm = nn.Identity()
        module.forward = lambda x: module[0](x)
    with pytest.raises(FovealError) as caught:
        Features(module, layers)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_side_that_is_no_side():
    with pytest.raises(FovealError, match="Features' side: expected at least 1, got 0"):
        Features(Halves(), side=0)


def test_probing_keeps_the_dtype_of_the_weights():
    module = nn.Conv2d(3, 5, 4, 4).double()
    assert probe(module, lambda x: [module(x)]) == [(4, 5)]


def test_images_that_a_model_does_not_take():
    for name in ("efficientnet-lite0", "icam-31k"):
        with pytest.raises(FovealError, match="images: expected"):
            made(name).features(torch.zeros(1, 1, 64, 64))
