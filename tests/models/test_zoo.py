import subprocess
import sys

import pytest
import torch

from foveal.errors import FovealError
from foveal.models.icam import Icam
from foveal.models.peer import PEERS, Peer
from foveal.models.transformer import Transformer
from foveal.models.zoo import FAMILIES, PRESETS, create, names, task_of


def test_a_preset_is_built_by_its_name():
    model = create("icam-31k")
    assert isinstance(model, Icam)
    assert model.config == PRESETS["icam-31k"]
    assert model.training


def test_settings_are_changed_and_the_preset_is_not():
    model = create("icam-30k", classes=18, queries=3)
    assert (model.config.classes, model.config.queries, model.config.width) == (18, 3, 24)
    assert model.head[3].out_features == 18
    assert PRESETS["icam-30k"].classes == 2


def test_a_peer_is_built_by_its_name():
    model = create("mobilevit-xxs", classes=7, image=64)
    assert isinstance(model, Peer)
    assert (model.config.kind, model.config.classes, model.config.image) == ("mobilevit-xxs", 7, 64)


def test_the_same_seed_gives_the_same_weights():
    states = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        states.append(create("icam-31k").state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not all(torch.equal(states[0][name], states[2][name]) for name in states[0])


def test_a_model_that_translates_is_built_by_its_name():
    model = create("transformer-small", source_words=11, target_words=13, tied="output")
    assert isinstance(model, Transformer)
    assert (model.config.source_words, model.config.target_words, model.config.width) == (11, 13, 256)


def test_every_name_has_one_task():
    assert names("classify") == ("icam-30k", "icam-31k", "icam-fast", *PEERS)
    assert set(names("translate")) == set(PRESETS) - set(names("classify"))
    assert task_of("rnn") == "translate"
    for config in (*PRESETS.values(), *PEERS.values()):
        assert FAMILIES[config.family].config is type(config)


def test_no_name_is_used_twice():
    assert not set(PRESETS) & set(PEERS)


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("icm-31k", {}, "no model is called 'icm-31k'; the nearest is 'icam-31k'; there are deit-tiny, "),
        (None, {}, "no model is called 'None'"),
        (["icam-31k"], {}, "no model is called"),
        ("icam-31k", {"klasses": 3}, "no setting of icam-31k is called 'klasses'; the nearest is 'classes'"),
        ("icam-31k", {"family": "peer"}, "no setting of icam-31k is called 'family'"),
        ("icam-31k", {"classes": 0}, "Icam's classes: expected at least 1, got 0"),
        ("icam-31k", {"classes": "two"}, "Icam's classes: expected an integer, at least 1, got 'two'"),
        ("transformer-base", {"classes": 3}, "no setting of transformer-base is called 'classes'"),
        ("resnet-18", {"width": 3}, "no setting of resnet-18 is called 'width'"),
    ],
)
def test_what_cannot_be_built_is_named_in_one_line(name, changes, said):
    with pytest.raises(FovealError) as caught:
        create(name, **changes)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_icam_does_not_load_transformers():
    code = "import sys; from foveal.models.zoo import create; create('icam-30k'); assert 'transformers' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
