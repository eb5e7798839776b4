"""Models by name, and families by their file."""

import dataclasses
import subprocess
import sys
from importlib import metadata

import pytest
import torch
from grid import first_is_quick

from foveal.errors import FovealError
from foveal.models import zoo
from foveal.models.efficientnet_lite import PRESETS as LITES
from foveal.models.icam import Icam
from foveal.models.peer import PRESETS as PEERS
from foveal.models.peer import Peer
from foveal.models.pvt import PRESETS as PVTS
from foveal.models.store import build, describe, load_model, save_model
from foveal.models.swin import PRESETS as SWINS
from foveal.models.transformer import Transformer
from foveal.models.vit import PRESETS as VITS
from foveal.models.zoo import FOLDER, create, families, families_of, family, presets, presets_of
from foveal.runtime.card import Card
from foveal.tasks.load import load
from foveal.tasks.task import all_tasks, find_task


def test_a_preset_is_built_by_its_name():
    model = create("icam-31k")
    assert isinstance(model, Icam)
    assert model.config == presets()["icam-31k"]
    assert model.training


def test_a_family_is_built_by_its_name_and_fields():
    vit = create("vit", patch=8, width=12, heads=3, layers=2, hidden=24, image=32, classes=5)
    assert (vit.config.family, vit.config.patch, vit.config.layers) == ("vit", 8, 2)
    assert vit.eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 5)


def test_fields_are_changed_and_the_preset_is_not():
    model = create("icam-30k", classes=18, queries=3)
    assert (model.config.classes, model.config.queries, model.config.width) == (18, 3, 24)
    assert model.head[3].out_features == 18
    assert presets()["icam-30k"].classes == 2


def test_a_preset_is_loaded_with_the_same_weights_and_leaves_the_callers_generator_alone():
    torch.manual_seed(0)
    own = create("icam-31k").state_dict()
    torch.manual_seed(71)
    before = torch.get_rng_state()
    loaded = load("icam-31k", device="cpu").network.state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(loaded[name], tensor) for name, tensor in own.items())


@pytest.mark.parametrize("name", ["icam-31k", "transformer-tiny"])
def test_threads_of_a_model_of_torch_are_the_process_s(name):
    """Of every task: a number of its own is refused, and the origin of its figures names those that computed."""
    says = "threads: expected an exported file, got a model of torch, whose threads are the whole process's; set "
    for call in ("predictor", "evaluate", "explain"):
        with pytest.raises(FovealError, match=f"^{says}"):
            getattr(load(name, device="cpu", threads=2), call)()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert load(name, device="cpu").origin()["threads"] == "3"
    finally:
        torch.set_num_threads(before)


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
    model = create("transformer-small", source_vocab=11, target_vocab=13, tied="output")
    assert isinstance(model, Transformer)
    assert (model.config.source_vocab, model.config.target_vocab, model.config.width) == (11, 13, 256)


def test_every_name_has_one_task():
    named = (*LITES, "icam-30k", "icam-31k", "icam-lite", "icam-fast", *PEERS, *PVTS, *SWINS, *VITS)
    assert tuple(presets_of(find_task("classify").kind)) == named
    assert "rnn" in presets_of(find_task("translate").kind)
    served = [one for task in all_tasks() for one in families_of(task.kind)]
    assert sorted(served) == sorted(families())


def test_no_name_is_used_twice():
    listed = [name for one in families() for name in family(one).presets]
    assert len(listed) == len(set(listed)) == len(presets())


@pytest.mark.parametrize("name", families())
def test_a_family_is_a_file_with_a_frozen_config_a_module_and_presets(name):
    found = family(name)
    assert (FOLDER / f"{name}.py").is_file()
    assert found.model.__module__ == found.config.__module__ == f"foveal.models.{name}"
    for config in found.presets.values():
        assert type(config) is found.config
        assert config.family == name
        with pytest.raises(dataclasses.FrozenInstanceError):
            config.family = "another"


def test_files_without_presets_are_no_families():
    own = {"efficientnet_lite", "icam", "peer", "pvt", "seq2seq", "swin", "transformer", "vit"}
    maps = set(families_of("images to maps"))
    assert set(families()) - maps == own
    assert {"attention_unet", "segmenter", "setr", "unet"} <= maps
    with pytest.raises(FovealError, match="no family of models is called 'icm'; the nearest is 'icam'"):
        family("icm")


OWN = {
    "icam": "foveal.models.icam",
    "efficientnet_lite": "foveal.models.efficientnet_lite",
    "peer": "foveal.models.peer",
    "transformer": "foveal.models.transformer",
    "seq2seq": "foveal.models.seq2seq",
    "pvt": "foveal.models.pvt",
    "swin": "foveal.models.swin",
    "vit": "foveal.models.vit",
}


def modules_after(code):
    """The modules of foveal.models that some code loads, in a process of its own."""
    end = (
        "\nimport sys; print(*sorted(name for name in sys.modules "
        "if name.startswith('foveal.models.') or name == 'transformers'))"
    )
    done = subprocess.run([sys.executable, "-c", code + end], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_to_list_families_imports_none():
    assert not modules_after("from foveal.models.zoo import families; families()") & set(OWN.values())
    kinds = "from foveal.models.zoo import families_of\nfrom foveal.tasks.task import all_tasks\n"
    kinds += "assert all(families_of(task.kind) for task in all_tasks())"
    assert not modules_after(kinds) & set(OWN.values())


@pytest.mark.parametrize("name", first_is_quick(OWN))
def test_a_family_imports_its_file_and_no_other_familys(name):
    found = modules_after(f"from foveal.models.zoo import family; family({name!r})")
    assert found & set(OWN.values()) == {OWN[name]}
    assert "transformers" not in found, "which only a peer that is built needs"


FOREIGN = """
from dataclasses import dataclass, field
import torch
from torch import nn

@dataclass(frozen=True)
class TinyConfig:
    width: int = 3
    family: str = field(default="tiny", init=False)

class Part(nn.Module):
    def __init__(self, config: TinyConfig) -> None:
        super().__init__()

class Tiny(nn.Module):
    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.config, self.layer = config, nn.Linear(config.width, 2)

    def example(self):
        return (torch.zeros(1, self.config.width),)

KIND = "numbers to numbers"
PRESETS = {"tiny-3": TinyConfig()}
"""


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """A package of somebody else's that brings a family."""
    file = tmp_path / "tiny_model.py"
    file.write_text(FOREIGN)
    monkeypatch.syspath_prepend(tmp_path)
    point = metadata.EntryPoint("tiny", "tiny_model", zoo.GROUP)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point] if group == zoo.GROUP else [])
    for found in (families, family):
        found.cache_clear()
    yield file
    for found in (families, family):
        found.cache_clear()
    sys.modules.pop("tiny_model", None)


@pytest.mark.usefixtures("foreign")
def test_a_family_of_another_package_is_found_by_its_entry_point():
    assert "tiny" in families()
    model = create("tiny-3", width=5)
    assert type(model).__name__ == "Tiny", "the module with an example, and not a part"
    assert model.layer.in_features == 5


@pytest.mark.usefixtures("foreign")
def test_families_of_a_kind_are_foveals_and_others_and_none_is_imported():
    assert families_of("numbers to numbers") == ("tiny",)
    assert "tiny_model" not in sys.modules
    assert tuple(presets_of("numbers to numbers")) == ("tiny-3",)
    assert families_of("tokens to tokens") == ("seq2seq", "transformer")
    assert families_of("images to nothing") == ()
    assert presets_of("images to nothing") == {}, "and not those of all families"


def test_a_kind_that_is_computed_is_read_by_importing_the_file(foreign):
    foreign.write_text(FOREIGN.replace('KIND = "numbers', 'KIND = "" + "numbers'))
    assert families_of("numbers to numbers") == ("tiny",)


def test_a_family_without_a_kind_is_left_out_in_one_line(foreign, capsys):
    foreign.write_text(FOREIGN.replace("KIND", "SORT"))
    assert "icam" in families_of("images to logits")
    (line,) = capsys.readouterr().err.splitlines()
    wanted = 'expected a KIND, what its models take and give, such as "images to logits", got none'
    assert f"tiny_model to bring it, got {foreign}: {wanted}; mend" in line


def test_annotations_may_be_text(foreign):
    foreign.write_text("from __future__ import annotations\n" + FOREIGN)
    assert family("tiny").model.__name__ == "Tiny"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (("def example", "def sample"), "Part, Tiny without example"),
        (("config: TinyConfig", "width: int"), "none"),
        (("class Part(nn.Module):", "class Part(nn.Module):\n    def example(self): ..."), "Part, Tiny"),
    ],
)
def test_a_family_without_its_one_module_says_what_is_missing_and_where(foreign, change, found):
    foreign.write_text(FOREIGN.replace(*change))
    with pytest.raises(FovealError) as caught:
        family("tiny")
    wanted = "one nn.Module with __init__(self, config: TinyConfig) and a method example"
    assert f"tiny_model to bring it, got {foreign}: expected {wanted}, got {found}; mend" in str(caught.value)


@pytest.mark.usefixtures("foreign")
def test_a_config_needs_no_depth(tmp_path):
    model = create("tiny-3", width=5)
    name, config = describe(model)
    save_model(model, tmp_path / "tiny.safetensors", Card(task="", model="tiny-3", family=name, config=config))
    assert load_model(tmp_path / "tiny.safetensors", Card)[0].layer.in_features == 5


def test_a_card_with_stages_that_are_none_is_one_line():
    with pytest.raises(FovealError, match="stages"):
        build(Card(task="", model="icam-31k", family="icam", config={"stages": [7]}), tensors=100)


def test_a_broken_package_costs_its_own_models_only(tmp_path, monkeypatch, capsys):
    (tmp_path / "broken_model.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    points = [metadata.EntryPoint(name, "broken_model", zoo.GROUP) for name in ("broken", "icam")]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points if group == zoo.GROUP else [])
    families.cache_clear()
    family.cache_clear()
    try:
        assert isinstance(create("icam-31k"), Icam)  # and not what calls itself icam
        assert "broken" in families()
        assert set(presets("icam", "broken")) == set(presets("icam"))
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(
            "foveal: left out: foveal.models broken: expected the package broken_model to bring it, got "
            "ModuleNotFoundError: No module named 'no_such_module'"
        )
        with pytest.raises(FovealError, match=r"foveal\.models broken"):
            family("broken")
    finally:
        families.cache_clear()
        family.cache_clear()


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("icm-31k", {}, "no model is called 'icm-31k'; the nearest is 'icam-31k'; there are attention-unet, "),
        (None, {}, "no model is called 'None'"),
        (
            "icam-fast-pipes",
            {},
            'icam-fast-pipes: create makes new weights of a preset; foveal.load("icam-fast-pipes") opens trained ones',
        ),
        (["icam-31k"], {}, "no model is called"),
        ("icam-31k", {"klasses": 3}, "no field of icam-31k's config is called 'klasses'; the nearest is 'classes'"),
        ("icam-31k", {"family": "peer"}, "no field of icam-31k's config is called 'family'"),
        ("icam-31k", {"classes": 0}, "Icam's classes: expected at least 1, got 0"),
        ("icam-31k", {"classes": "two"}, "Icam's classes: expected an integer, at least 1, got 'two'"),
        ("transformer-base", {"classes": 3}, "no field of transformer-base's config is called 'classes'"),
        ("resnet-18", {"width": 3}, "no field of resnet-18's config is called 'width'"),
    ],
)
def test_what_cannot_be_built_is_named_in_one_line(name, changes, message):
    with pytest.raises(FovealError) as caught:
        create(name, **changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_icam_does_not_load_transformers():
    assert "transformers" not in modules_after("from foveal.models.zoo import create; create('icam-30k')")
