import pytest
import torch

import foveal.models.peer as source
from foveal.errors import FovealError
from foveal.models.peer import PRESETS, Peer, PeerConfig
from foveal.models.zoo import create

# Published parameters less the 1000-class head of ImageNet (DeiT-Tiny: without its distillation token), in millions.
PUBLISHED = {
    "efficientnet-b0": 4.01,
    "mobilenet-v2": 2.22,
    "mobilenet-v3-s": 1.52,
    "mobilenet-v4-s": 2.49,
    "mobilevit-xxs": 0.95,
    "deit-tiny": 5.52,
    "resnet-18": 11.18,
    "xie-2019": 9.16,
}
LAST = {  # width before the head
    "efficientnet-b0": 1280,
    "mobilenet-v2": 1280,
    "mobilenet-v3-s": 1024,
    "mobilenet-v4-s": 1280,
    "mobilevit-xxs": 320,
    "deit-tiny": 192,
    "resnet-18": 512,
    "xie-2019": 512,
}


@pytest.mark.parametrize("kind", PUBLISHED)
@torch.no_grad()
def test_a_peer_has_its_published_parameters_and_the_classes_asked_for(kind):
    model = Peer(PeerConfig(kind, classes=7)).eval()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert (parameters - 7 * (LAST[kind] + 1)) / 1e6 == pytest.approx(PUBLISHED[kind], abs=0.01)
    assert model(torch.randn(1, 3, 224, 224)).shape == (1, 7)


@pytest.mark.parametrize("kind", PRESETS)
def test_a_peer_for_small_images_learns(kind):
    torch.manual_seed(0)
    model = Peer(PeerConfig(kind, classes=3, image=64))
    logits = model(torch.randn(2, 3, 64, 64))
    assert logits.shape == (2, 3)
    logits.square().sum().backward()
    unused = [name for name, weight in model.named_parameters() if weight.grad is None]
    assert not unused


def test_every_peer_is_listed():
    assert set(PRESETS) - set(PUBLISHED) == {"vit-24"}  # our own, as wide as icam-31k
    assert Peer(PRESETS["vit-24"]).net.config.hidden_size == create("icam-31k").config.width
    assert all(config == PeerConfig(kind) for kind, config in PRESETS.items())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (PeerConfig("resnet-19"), "no peer is called 'resnet-19'; the nearest is 'resnet-18'"),
        (PeerConfig("resnet-18", image=100), "Peer's image: expected a multiple of 32, got 100"),
        (PeerConfig("resnet-18", image="a"), "Peer's image: expected an integer, at least 1, got 'a'"),
        (PeerConfig("resnet-18", image=0), "Peer's image: expected at least 1, got 0"),
        (PeerConfig("resnet-18", classes=0), "Peer's classes: expected at least 1, got 0"),
    ],
)
def test_a_peer_that_cannot_be_built_is_named_in_one_line(config, message):
    with pytest.raises(FovealError) as caught:
        Peer(config)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_images_that_do_not_fit_are_named_in_one_line():
    model = Peer(PeerConfig("deit-tiny", image=64)).eval()
    for images, message in (
        (torch.zeros(1, 3, 32, 64), r"deit-tiny's images: expected \(B, 3, 64, 64\), got \(1, 3, 32, 64\)"),
        (torch.zeros(3, 64, 64), r"got \(3, 64, 64\)"),
        (torch.zeros(1, 1, 64, 64), r"got \(1, 1, 64, 64\)"),
        (None, "got None"),
    ):
        with pytest.raises(FovealError, match=message):
            model(images)


def test_without_transformers_one_line_says_what_to_install(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(source.importlib, "import_module", missing)
    with pytest.raises(
        FovealError, match=r"resnet-18: expected transformers to be installed, got none; pip install foveal\[peers\]"
    ):
        Peer(PeerConfig("resnet-18"))


@pytest.mark.parametrize("kind", PUBLISHED)
def test_statistics_are_of_many_batches(kind):
    """As torch means momentum: what the new batch counts for."""
    norms = [part for part in Peer(PRESETS[kind]).modules() if isinstance(part, torch.nn.BatchNorm2d)]
    assert all(part.momentum == 0.1 for part in norms)
    assert norms or kind in ("deit-tiny", "xie-2019")


@pytest.mark.parametrize("kind", PUBLISHED)
def test_new_weights_let_the_image_through(kind):
    """transformers' own do not: logits of EfficientNet differ by 1e-31 between images."""
    torch.manual_seed(0)
    peer = Peer(PRESETS[kind]).train()
    with torch.no_grad():
        logits = peer(torch.randn(6, 3, 224, 224))
    assert logits.std(0).mean() > 0.01
