"""A model as one file: there and back, written whole, and nothing else is taken for one."""

import ast
import contextlib
import copy
import dataclasses
import json
import pickle
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import foveal.atomic
import foveal.models.store
import foveal.runtime.card
from foveal.errors import FovealError
from foveal.models.heads import remove_heads
from foveal.models.icam import Icam, IcamConfig
from foveal.models.mbconv import Stage
from foveal.models.store import begin_with, describe, load_for, read_text, save_model, shapes_of
from foveal.models.store import load_model as load_model_of
from foveal.models.zoo import create
from foveal.runtime.packaged import FILE
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.load import load
from foveal.tasks.translate.card import OLD_CONFIG, TranslateCard

CONFIG = IcamConfig(
    classes=3, image=14, patch=7, stem=3, stages=(Stage(5, expand=2),), width=6, hidden=7, first="projected", mixer=True
)


def small(seed=0):
    torch.manual_seed(seed)
    model = Icam(CONFIG)
    model.train()(torch.randn(5, 3, 14, 14))  # so that BatchNorm has counted something
    return model.eval()


def load_model(path):
    return load_model_of(path, ClassifyCard)


def card_of(net, **changes):
    family, config = describe(net)
    return ClassifyCard(**{"model": "small", "family": family, "config": config, "classes": ("a", "b", "c"), **changes})


def refusal(path):
    with pytest.raises(FovealError) as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    return str(caught.value)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "some run" / FILE
    save_model(small(), path, card_of(small()))
    return path


# --- there and back ---------------------------------------------------------------------------------------------------


def same(one, other):
    mine, theirs = one.state_dict(), other.state_dict()
    equal = all(torch.equal(mine[name], theirs[name]) and mine[name].dtype == theirs[name].dtype for name in theirs)
    return list(mine) == list(theirs) and equal


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_model_comes_back_bit_by_bit(tmp_path, dtype):
    model = small().to(dtype)
    card = card_of(model, data={"name": "pipes"}, note="ß")
    save_model(model, tmp_path / "m.safetensors", card)
    other, card_read = load_model(tmp_path / "m.safetensors")
    assert card_read == card
    assert same(other, model)
    assert not other.training
    assert all(weight.requires_grad for weight in other.parameters())
    image = torch.randn(2, 3, 14, 14).to(dtype)
    with torch.no_grad():
        assert torch.equal(other(image), model(image))


@pytest.mark.parametrize(
    ("name", "changes"), [("icam-30k", {}), ("icam-31k", {"queries": 2}), ("mobilevit-xxs", {"image": 64})]
)
def test_a_file_describes_itself(tmp_path, name, changes):
    model = create(name, classes=3, **changes).eval()
    save_model(model, tmp_path / FILE, card_of(model, model=name))
    other, card = load_model(str(tmp_path))  # a run's folder, as text
    assert type(other) is type(model)
    assert other.config == model.config
    assert card.model == name
    assert same(other, model)


@pytest.mark.slow
def test_a_file_is_loaded_by_another_process_that_knows_its_name_only(file):
    code = (
        "import sys; from foveal.tasks.load import load; model = load(sys.argv[1], device='cpu'); "
        "print(model.classes, model.network.config.width)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(file)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.strip() == "('a', 'b', 'c') 6", done.stderr


def test_a_name_without_an_ending_works(tmp_path):
    save_model(small(), tmp_path / "model", card_of(small()))
    assert load_model(tmp_path / "model")[1].model == "small"


def test_loading_draws_no_random_number_and_shares_no_weights(file):
    before = torch.get_rng_state()
    one, other = load_model(file)[0], load_model(file)[0]
    assert torch.equal(torch.get_rng_state(), before)
    assert same(one, other)
    with torch.no_grad():
        one.embed.weight.zero_()
    assert not same(one, other)
    assert same(load_model(file)[0], other)  # nor with the file


# --- written whole ----------------------------------------------------------------------------------------------------


def test_a_kill_between_writing_and_renaming_leaves_the_old_file(file, monkeypatch):
    before = file.read_bytes()

    def killed(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        save_model(small(seed=1), file, card_of(small()))
    assert file.read_bytes() == before
    assert same(load_model(file)[0], small())
    assert [path.name for path in file.parent.iterdir()] == [FILE]


def test_a_process_that_dies_before_renaming_leaves_the_old_file(file):
    before = file.read_bytes()
    code = (
        "import os, sys; from pathlib import Path; from foveal.models.store import load_model, save_model\n"
        "from foveal.tasks.classify.card import ClassifyCard\n"
        "model, card = load_model(sys.argv[1], ClassifyCard); Path.replace = lambda *_: os._exit(9)\n"
        "model.embed.weight.data.zero_(); save_model(model, Path(sys.argv[1]), card)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(file)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 9, done.stderr
    assert file.read_bytes() == before
    assert len(list(file.parent.iterdir())) == 2  # what it had begun lies beside it, under another name
    assert same(load_model(file.parent)[0], small())


def test_a_full_disk_is_one_line_and_leaves_the_old_file(file, monkeypatch):
    before = file.read_bytes()

    def full(self, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(FovealError, match="No space left on device"):
        save_model(small(seed=1), file, card_of(small()))
    assert file.read_bytes() == before


def test_a_place_that_cannot_be_written_is_named(file):
    for path in (file.parent, file / "below"):
        with pytest.raises(FovealError, match="cannot write"):
            save_model(small(), path, card_of(small()))
    assert same(load_model(file)[0], small())


# --- what is no model -------------------------------------------------------------------------------------------------


def test_damaged_files(file):
    whole = file.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    damaged = {
        "nothing": b"",
        "a few bytes": whole[:4],
        "its length only": whole[:8],
        "half of its header": whole[: header // 2],
        "its header only": whole[:header],
        "all but a byte": whole[:-1],
        "a byte more": whole + b"\0",
        "a length that lies": (2**63 - 1).to_bytes(8, "little") + whole[8:],
        "random bytes": random.Random(0).randbytes(3000),
        "pickle": pickle.dumps({"a": 1}),
        "text": b"hello " * 100,
    }
    for content in damaged.values():
        file.write_bytes(content)
        assert f"{file}: expected a .safetensors file, got something else" in refusal(file)


def test_a_flipped_bit_in_the_header_is_no_traceback(file):
    whole, place = file.read_bytes(), random.Random(1)
    header = 8 + int.from_bytes(whole[:8], "little")
    for _ in range(60):
        at = place.randrange(header)
        file.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << place.randrange(8))]) + whole[at + 1 :])
        with contextlib.suppress(FovealError):  # and nothing else
            load_model(file)


def test_another_safetensors_file(tmp_path):
    path = tmp_path / "other.safetensors"
    save_file({"weight": torch.ones(2)}, path)
    assert refusal(path) == f"{path}: expected a model that foveal wrote, got safetensors without a card of foveal's"
    save_file({"weight": torch.ones(2)}, path, {"format": "pt"})
    assert "without a card" in refusal(path)
    save_file({"weight": torch.ones(2)}, path, {"foveal": "no card"})
    assert refusal(path) == f"{path}: expected a card of foveal's in JSON, got something else; the file is damaged"


CARDS = {
    "another task": ({"task": "segment"}, "expected a model for the task classify, got one for 'segment'"),
    "a newer foveal": ({"foveal": "99.1.0"}, "got one of '99.1.0'; upgrade foveal"),
    "another family": ({"family": "vat"}, "no family of models is called 'vat'"),
    "names of other classes": ({"classes": ("a", "b")}, "expected 3 names of classes, got 2"),
}
CONFIGS = {
    "another width": ({"width": 8}, "expected the weights of a small, got others"),
    "another first query": ({"first": "adaptive"}, "expected the weights of a small, got others"),
    "more layers": ({"layers": 3}, "expected the weights of a small, got others"),
    "a million layers": ({"layers": 1_000_000}, "expected at most 80 blocks, as the file has tensors, got 1,000,00"),
    "an unknown field": ({"colour": "red"}, "expected fields of IcamConfig, got others"),
    "a field without a value": ({"stem_kernel": None}, "kernel: expected an integer, at least 1, got None"),
    "a wrong field": ({"width": "a"}, "Icam's width: expected an integer"),
    "a wrong position": ({"position": ["polar"]}, "no position is called"),
    "wrong stages": ({"stages": 3}, "expected fields of IcamConfig, got others"),
    "a wrong stage": ({"stages": [{"colour": 3}]}, "expected fields of IcamConfig, got others"),
    "no stage": ({"stages": ["a"]}, "stages: expected a tuple of Stage"),
    "more than memory": ({"width": 2**20, "heads": 1}, "expected the weights of a small, got others"),
    "more than any memory": ({"width": 2**30, "heads": 1}, "expected fields of IcamConfig, got others"),
}


@pytest.mark.parametrize("name", CARDS)
def test_a_card_that_does_not_fit(file, name):
    changes, words = CARDS[name]
    model = small()
    save_model(model, file, dataclasses.replace(card_of(model), **changes))
    assert refusal(file).startswith(f"{file}: ")
    assert words in refusal(file)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_that_does_not_fit_the_weights(file, name):
    changes, words = CONFIGS[name]
    model = small()
    save_model(model, file, card_of(model, config=describe(model)[1] | changes))
    assert refusal(file).startswith(f"{file}: ")
    assert words in refusal(file)


def test_weights_that_are_missing_or_too_many(file):
    card = card_of(small())
    state = small().state_dict()
    save_file({name: tensor for name, tensor in state.items() if name != "embed.bias"}, file, {"foveal": card.text()})
    assert "embed.bias" in refusal(file)
    save_file(state | {"more": torch.ones(3)}, file, {"foveal": card.text()})
    assert "more" in refusal(file)


def test_files_that_are_not_there(tmp_path):
    for path in (tmp_path / "none.safetensors", tmp_path, "", "a\0b", "a" * 5000):
        assert (
            "the model: expected a .safetensors file of foveal's, a run's folder with a model.safetensors, "
            "icam-fast-pipes, icam-pipes or icam-seg-pipes, got" in refusal(path)
        )
    assert "the model: expected the name of a file, got None" in refusal(None)


def test_describe_says_what_it_needs():
    with pytest.raises(FovealError, match=r"the model: expected one of foveal\.create, got Linear"):
        describe(torch.nn.Linear(2, 2))
    assert json.loads(json.dumps(describe(small())[1])) == describe(small())[1]


# --- models that translate --------------------------------------------------------------------------------------------

WORDS = {"source_vocab": 13, "target_vocab": 13}
SIZES = {"width": 8, "hidden": 11, "heads": 2, "layers": 1, "decoder_layers": 2}


def translator(path, name, **changes):
    torch.manual_seed(0)
    model = create(name, **WORDS, **changes).eval()
    family, config = describe(model)
    card = TranslateCard(model=name, family=family, config=config, vocabulary="{}")
    save_model(model, path, card)
    return model, card


@pytest.mark.parametrize("tied", ["all", "output", "none"])
@pytest.mark.parametrize(
    ("name", "changes"), [("transformer-tiny", SIZES), ("rnn", {"hidden": 5}), ("rnn-attention", {"hidden": 5})]
)
def test_a_model_that_translates_comes_back(tmp_path, name, changes, tied):
    path = tmp_path / "m.safetensors"
    model, card = translator(path, name, tied=tied, **changes)
    other, card_read = load_model_of(path, TranslateCard)
    assert card_read == card
    assert same(other, model)
    assert (other.tables.of_output is other.tables.source.weight) == (tied == "all")
    words = torch.tensor([[5, 7, 2, 0]]), torch.tensor([[1, 5, 6]])
    with torch.no_grad():
        # A copy: tensors of a file lie in memory as in the file, and at an odd address a kernel may round the last bit
        # otherwise.
        assert torch.equal(copy.deepcopy(other)(*words), model(*words))
    # a tied table lies there once
    assert path.stat().st_size < 4 * sum(weight.numel() for weight in model.parameters()) + 20_000


@pytest.mark.parametrize(("name", "changes"), [("transformer-tiny", SIZES), ("rnn", {"hidden": 5})])
def test_a_file_whose_config_has_the_fields_of_before_is_opened(tmp_path, name, changes):
    path = tmp_path / "m.safetensors"
    model, card = translator(path, name, **changes)
    before = {new: old for old, new in OLD_CONFIG.items()}
    old = dataclasses.replace(card, config={before.get(key, key): value for key, value in card.config.items()})
    assert old.config["source_words"] == 13
    save_model(model, path, old)
    other, card_read = load_model_of(path, TranslateCard)
    assert card_read == card
    assert same(other, model)


def test_a_model_is_not_taken_for_one_of_another_task(tmp_path, file):
    path = tmp_path / "m.safetensors"
    translator(path, "transformer-tiny", **SIZES)
    assert refusal(path) == f"{path}: expected a model for the task classify, got one for 'translate'"
    with pytest.raises(FovealError, match="expected a model for the task translate, got one for 'classify'"):
        load_model_of(file, TranslateCard)


def test_a_card_whose_family_has_another_task(tmp_path):
    path = tmp_path / "m.safetensors"
    model = small()
    family, config = describe(model)
    save_model(model, path, TranslateCard(model="small", family=family, config=config))
    with pytest.raises(
        FovealError,
        match=r"m\.safetensors: expected a model that translates, of seq2seq or transformer, "
        "got one of the family icam",
    ):
        load(path)


# --- models that are changed on their way -----------------------------------------------------------------------------


def test_a_pruned_model_comes_back_as_small_as_it_was(tmp_path):
    model = create("icam-31k", classes=3, image=28, patch=7, heads=4).eval()
    remove_heads(model, {0: [1, 2]})
    save_model(model, tmp_path / FILE, card_of(model, model="icam-31k", shapes=shapes_of(model)))
    other, card = load_model(tmp_path)
    assert card.shapes
    assert same(other, model)
    save_model(
        model, tmp_path / FILE, card_of(model, model="icam-31k", shapes=shapes_of(model) | {"embed.weight": [3, 3]})
    )
    assert "the card of icam-31k: expected shapes that fit each other, got others" in refusal(tmp_path)


def test_a_model_for_other_classes_keeps_what_does_not_depend_on_them(file):
    other = load_for(file, ClassifyCard, classes=5)
    assert other.head[-1].out_features == 5
    whole = small().state_dict()
    changed = {
        name
        for name, tensor in other.state_dict().items()
        if not (tensor.shape == whole[name].shape and torch.equal(tensor, whole[name]))
    }
    # the head is as wide as the classes are many
    assert changed == {"head.0.weight", "head.0.bias", "head.3.weight", "head.3.bias"}
    assert same(load_for(file, ClassifyCard, classes=3), small())


def test_to_begin_with_weights_that_fit(file, tmp_path):
    model = Icam(dataclasses.replace(CONFIG, classes=5))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert begin_with(model, str(file)) == len(before) - 4
    assert torch.equal(model.embed.weight, small().embed.weight)
    assert torch.equal(model.head[3].weight, before["head.3.weight"])
    broken = small()
    broken.embed.weight.data[0, 0] = float("nan")
    save_model(broken, file, card_of(broken))
    with pytest.raises(
        FovealError, match=r"expected finite numbers, got NaN or infinity in embed\.weight; choose another file"
    ):
        begin_with(model, str(file))
    save_file({"other": torch.ones(2)}, tmp_path / "o.safetensors", {"foveal": card_of(small()).text()})
    with pytest.raises(FovealError, match="expected some that fit the model, got none"):
        begin_with(model, str(tmp_path / "o.safetensors"))


def test_the_card_is_read_without_the_weights(file, monkeypatch):
    import foveal.models.store as store

    monkeypatch.setattr(store, "read_tensors", lambda *_: pytest.fail("read"))
    assert json.loads(read_text(file))["model"] == "small"


# --- opening never runs code ------------------------------------------------------------------------------------------


def test_reading_never_unpickles(file, monkeypatch):
    for module in (foveal.models.store, foveal.runtime.card, foveal.atomic):
        tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
        called = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        called |= {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert not called & {"pickle", "eval", "exec", "compile", "marshal", "dill", "joblib", "__import__", "load"}
        assert not any(isinstance(node, ast.Attribute) and node.attr == "load" for node in ast.walk(tree))

    def never(*_, **__):
        raise AssertionError("something was unpickled")

    for owner, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")):
        monkeypatch.setattr(owner, name, never)
    assert load_model(file)[1].model == "small"
