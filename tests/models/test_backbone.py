"""Somebody else's first stages as Φ."""

import sys
import types

import pytest
import torch
from cards import classify_card
from torch import nn

from foveal.errors import FovealError
from foveal.models.backbone import backbone
from foveal.models.store import describe, load_model, save_model
from foveal.models.zoo import create
from foveal.tasks.classify.card import ClassifyCard


def test_resnet_18_up_to_its_first_stage_is_transformers_own():
    transformers = pytest.importorskip("transformers")
    whole = transformers.ResNetModel(
        transformers.ResNetConfig(layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512])
    )
    ours = backbone("resnet-18:2")
    wanted = ours.net.state_dict()
    carried = {name: tensor for name, tensor in whole.state_dict().items() if name in wanted}
    assert carried.keys() == wanted.keys()
    ours.net.load_state_dict(carried)
    x = torch.randn(2, 3, 37, 41)
    hidden = whole.eval()(x, output_hidden_states=True).hidden_states[2]
    torch.testing.assert_close(ours.eval()(x), hidden)
    assert ours.width == 128


def test_icam_takes_it_by_name_and_its_file_remembers(tmp_path):
    pytest.importorskip("transformers")
    model = create("icam-30k", classes=3, image=64, patch=32, phi="resnet-18:1").eval()
    assert model.phi.width == 64
    family, config = describe(model)
    save_model(model, tmp_path / "m.safetensors", classify_card("icam-30k", family, config, ("a", "b", "c")))
    again, _ = load_model(tmp_path / "m.safetensors", ClassifyCard)
    x = torch.randn(1, 3, 64, 64)
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in model.state_dict().items())
    torch.testing.assert_close(again(x), model(x))


def test_a_network_of_timm(monkeypatch):
    class Net(nn.Module):
        feature_info = types.SimpleNamespace(channels=lambda: [7])

        def forward(self, x):
            return [x.new_ones(len(x), 7, 2, 2)]

    asked = {}

    def create_model(name, **settings):
        asked.update(settings, name=name)
        return Net()

    monkeypatch.setitem(sys.modules, "timm", types.SimpleNamespace(create_model=create_model))
    ours = backbone("timm:some_net:1")
    assert asked == {"name": "some_net", "pretrained": False, "features_only": True, "out_indices": (1,)}
    assert ours.width == 7
    assert ours(torch.zeros(5, 3, 8, 8)).shape == (5, 7, 2, 2)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("resnet-18", "NAME:STAGE"),
        ("resnet-19:1", "nearest is 'resnet-18'"),
        ("resnet-18:9", "1 to 4"),
        (":1", "NAME:STAGE"),
        ("a:b", "NAME:STAGE"),
    ],
)
def test_bad_names(name, words):
    with pytest.raises(FovealError, match=words):
        backbone(name)


def test_a_library_that_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(FovealError, match="pip install timm"):
        backbone("timm:x:1")
