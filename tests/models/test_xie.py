import torch
from layers.carry import near
from torch import nn

from foveal.deploy.measure.cost import flops, parameters
from foveal.models.peer import Peer, PeerConfig
from foveal.models.xie import Xie


@torch.no_grad()
def test_it_is_the_chain_of_its_layers():
    torch.manual_seed(0)
    model = Xie(5).double().eval()
    chain = nn.Sequential(
        model.first,
        nn.ReLU(),
        nn.MaxPool2d(2),
        model.second,
        nn.ReLU(),
        nn.MaxPool2d(2),
        model.third,
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(8),
        nn.Flatten(),
        model.hidden,
        model.classifier,
    ).eval()
    images = torch.randn(2, 3, 96, 64, dtype=torch.float64)
    assert near(model(images), chain(images), 1e-12)


def test_its_size_by_hand():
    convolutions = (3 * 11**2 + 1) * 64 + (64 * 3**2 + 1) * 128 + (128 * 3**2 + 1) * 128
    assert parameters(Peer(PeerConfig("xie-2019"))) == convolutions + 8193 * 1024 + 1025 * 512 + 513 * 2 == 9_160_194


def test_its_work_by_hand():
    model = Peer(PeerConfig("xie-2019", image=256))
    products = 256**2 * 3 * 11**2 * 64 + 64**2 * 64 * 9 * 128 + 16**2 * 128 * 9 * 128 + 8192 * 1024 + 1024 * 512 + 1024
    assert flops(model, *model.example()) == 2 * products


def test_dropout_falls_in_training_only():
    torch.manual_seed(0)
    model, images = Xie(3), torch.randn(2, 3, 64, 64)
    assert not torch.equal(model(images), model(images))
    model.eval()
    assert torch.equal(model(images), model(images))
