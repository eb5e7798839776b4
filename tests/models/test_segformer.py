"""SegFormer as a peer: transformers' own, and what holds for every model that gives maps."""

import pytest
import torch
from models.segments import by_onnx, is_loaded
from models.witness import images, parameters, spread

import foveal.models.segformer_peer as source
from foveal.errors import FovealError
from foveal.models.segformer_peer import SegformerPeer, SegformerPeerConfig
from foveal.models.zoo import create, presets_of
from foveal.tasks.load import list_models


def made(**changes):
    torch.manual_seed(0)
    return SegformerPeer(SegformerPeerConfig(**{"classes": 7, "image": 64} | changes)).eval()


@torch.no_grad()
def test_it_is_transformers_own_with_the_parameters_of_its_paper():
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    model = spread(made(classes=150))
    other = SegformerForSemanticSegmentation(SegformerConfig(num_labels=150)).eval()
    other.load_state_dict(model.net.state_dict())
    x = images(64, 96)
    assert torch.equal(model(x), other(x).logits)
    assert model(x).std(0).mean() > 0.1, "one answer for every image proves nothing"
    assert parameters(model) == 3_752_694  # 3.8 million for the 150 classes of ADE20K, as its table 1 says


@pytest.mark.parametrize("sides", [(32, 32), (96, 160), (224, 32)])
@torch.no_grad()
def test_shapes_of_sizes_that_the_multiple_divides(sides):
    model = made()
    assert (model.stride, model.multiple) == (4, 32)
    assert model(images(*sides)).shape == (2, 7, sides[0] // 4, sides[1] // 4)
    assert (model.strides, model.widths) == ((4, 8, 16, 32), (32, 64, 160, 256))
    shapes = [tuple(one.shape[1:]) for one in model.features(images(*sides))]
    pairs = zip(model.strides, model.widths, strict=True)
    assert shapes == [(width, sides[0] // stride, sides[1] // stride) for stride, width in pairs]


def test_new_weights_let_the_image_through_and_every_one_learns():
    torch.manual_seed(0)
    model = create("segformer-b0", classes=3, image=64)
    logits = model(images(64, 64, batch=3))
    assert logits.std(0).mean() > 0.01
    logits.square().mean().backward()
    assert not [name for name, weight in model.named_parameters() if weight.grad is None]
    # He et al.'s deviation, by how many cells a weight reaches; transformers' own is a fiftieth.
    inner = model.net.segformer.stages[0].blocks[0].mlp.dwconv.dwconv.weight
    assert float(inner.detach().std()) == pytest.approx((2 / 9) ** 0.5, rel=0.1)


def test_a_file_gives_the_same_model(tmp_path):
    assert is_loaded(spread(made()), images(64, 96), tmp_path)


def test_it_is_found_by_its_name():
    assert "segformer-b0" in presets_of("images to maps")
    assert "segformer-b0" in list_models("seg*")


@pytest.mark.slow
@torch.no_grad()
def test_onnx_of_any_size_equals_torch():
    assert by_onnx(spread(made()), images(96, 160), images(64, 32, batch=1), images(128, 224, batch=3)) < 1e-4


def test_without_transformers_one_line_says_what_to_install(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(source.importlib, "import_module", missing)
    with pytest.raises(
        FovealError, match=r"segformer-b0: expected transformers to be installed, got none; pip install foveal\[peers\]"
    ):
        made()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "segformer-b9"}, "no peer is called 'segformer-b9'; the nearest is 'segformer-b0'"),
        ({"image": 100}, "SegformerPeer's image: expected a multiple of 32, got 100"),
        ({"classes": 0}, "SegformerPeer's classes: expected at least 1, got 0"),
    ],
)
def test_a_peer_that_cannot_be_built_is_named_in_one_line(changes, message):
    with pytest.raises(FovealError) as caught:
        made(**changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_images_that_do_not_fit_are_named_in_one_line():
    model = made()
    for given, message in (
        (torch.zeros(1, 3, 31, 64), r"SegformerPeer's images: expected \(B, 3, h, w\) with sides of at least 32, got"),
        (torch.zeros(1, 1, 64, 64), r"got \(1, 1, 64, 64\)"),
        (None, "got None"),
    ):
        for call in (model, model.features):
            with pytest.raises(FovealError, match=message):
                call(given)
