"""Cards: what is written is read, what is older is upgraded, and what cannot be used is refused in one line."""

import contextlib
import dataclasses
import json
from pathlib import Path

import pytest
from cards import classify_card
from hypothesis import given
from hypothesis import strategies as st

import foveal
from foveal.errors import FovealError
from foveal.runtime.card import FORMAT, Card, check_classes, read_card, task_in
from foveal.tasks.classify.card import ClassifyCard
from foveal.tasks.translate.card import TranslateCard

OLD = Path(__file__).parent / "old_cards"  # as foveal wrote them before `format: 1`
CARD = classify_card("icam-31k", "icam", {"classes": 2, "width": 24}, ("sound", "crack"))


def read(text):
    return read_card(text, "a file", ClassifyCard)


def changed(**changes):
    return json.dumps(json.loads(CARD.text()) | changes)


def without(*names):
    return json.dumps({name: value for name, value in json.loads(CARD.text()).items() if name not in names})


def test_what_a_card_has_by_default():
    assert (CARD.task, CARD.format) == ("classify", 1)
    assert CARD.foveal == foveal.__version__
    assert CARD.mean == (0.523, 0.453, 0.345)  # of Sewer-ML
    assert CARD.std == (0.210, 0.199, 0.154)


FULL = classify_card(
    "resnet-18",
    "peer",
    {"kind": "resnet-18", "classes": 3, "image": 64},
    ("Riß", "Wurzel", "根"),
    multi_label=True,
    size=64,
    mean=(0.1, 0.2, 0.3),
    std=(1.0, 0.5, 0.25),
    threshold=(0.1, 0.2, 0.7),
    temperature=1.7,
    data={"name": "pipes"},
    metrics={"F1": 0.5},
    recipe={"seed": 3},
    origin={"commit": "abc"},
    note="for pipes",
)


@pytest.mark.parametrize("card", [CARD, FULL])
def test_what_is_written_is_read(card):
    assert read(card.text()) == card
    assert "\n" not in card.text()


NAMES = st.text(max_size=9).filter(
    lambda name: name.strip() == name and name.isprintable() and name not in ("", "file", "found", "error")
)


@given(
    names=st.lists(NAMES, min_size=1, max_size=5, unique=True),
    temperature=st.floats(1e-3, 1e3),
    note=st.text(max_size=30),
    multi_label=st.booleans(),
)
def test_any_names_and_numbers_are_read_as_they_were(names, temperature, note, multi_label):
    threshold = tuple(index / 7 for index in range(len(names))) if multi_label else None
    card = classify_card(
        "m", "icam", {}, tuple(names), multi_label, temperature=temperature, note=note, threshold=threshold
    )
    assert read(card.text()) == card


def test_what_a_later_foveal_of_the_same_version_adds_is_left_aside():
    assert read(changed(colour="red")) == CARD


def test_only_what_a_model_needs_must_be_there():
    assert read(without("mean", "note", "foveal", "threshold", "data")) == CARD


@pytest.mark.parametrize("version", ["0.0.9", "0.1", foveal.__version__, foveal.__version__ + "rc1"])
def test_cards_of_versions_before_are_read(version):
    assert read(changed(foveal=version)).foveal == version


BAD = {
    "label": (changed(recipe={"label": 5}), "expected a recipe whose label is text, got 5"),
    "fold_column": (changed(recipe={"fold_column": ["a"]}), "expected a recipe whose fold_column is text, got ['a']"),
    "fold": (changed(recipe={"fold": "all"}), "expected a recipe whose fold is a number, got 'all'"),
    "blank": (changed(recipe={"blank": None}), "expected a recipe whose blank is a list of boxes, got None"),
    "box": (
        changed(recipe={"blank": [[0, 1, 2]]}),
        "expected a recipe whose blank is a list of boxes, got [[0, 1, 2]]",
    ),
    "no JSON": ("{", "expected a card of foveal's in JSON, got something else; the file is damaged"),
    "deep JSON": ("[" * 100_000, "expected a card of foveal's in JSON"),
    "a list": ("[]", "expected a card of foveal's, got list"),
    "nothing": ("{}", "expected a card with classes, config, family, model"),
    "no classes": (without("classes"), "got one without classes"),
    "another task": (changed(task="segment"), "expected a model for the task classify, got one for 'segment'"),
    "a newer format": (changed(format=FORMAT + 1), f"expected a file of foveal {foveal.__version__} or before"),
    "a format in words": (changed(format="one"), "upgrade foveal"),
    "a huge size": (changed(size=10**9), "expected a size of at most 4096 pixels, got 1000000000"),
    "a threshold above 1": (
        changed(threshold=[1.5]),
        "expected a threshold from 0 to 1 of two classes, or none, got (1.5,)",
    ),
    "a shape in words": (changed(shapes={"a": "b"}), "expected a shape of 'a' in integers above 0, got 'b'"),
    "a shape of nothing": (changed(shapes={"a": [0]}), "expected a shape of 'a' in integers above 0, got [0]"),
    "a newer foveal": (
        changed(foveal="9.0.0"),
        f"expected a file of foveal {foveal.__version__} or before, got one of '9.0.0'; upgrade",
    ),
    "a long version": (changed(foveal="9" * 5000), "upgrade foveal"),
    "an odd digit": (changed(foveal="²", task="x"), "expected a model for the task classify"),
    "a number as model": (changed(model=3), "expected a card whose model is printable text, got 3"),
    "a list as family": (changed(family=["icam"]), "expected a card whose family is printable text"),
    "random in words": (changed(random="no"), "expected a card whose random is true or false, got 'no'"),
    "a number as config": (changed(config=3), "expected a card whose config has names and values, got 3"),
    "no class": (changed(classes=[]), "expected names of classes, got ()"),
    "numbers as classes": (changed(classes=[1, 2]), "expected names of classes, got (1, 2)"),
    "text as classes": (changed(classes="ab"), "expected names of classes, got 'ab'"),
    "another number of classes": (changed(classes=["a", "b", "c"]), "expected 2 names of classes, got 3"),
    "multi_label as text": (changed(multi_label="no"), "expected a card whose multi_label is true or false, got 'no'"),
    "no size": (changed(size=0), "expected a size of at most 4096 pixels, got 0"),
    "a mean of one": (changed(mean=[0.5]), "expected a mean of three numbers, got (0.5,)"),
    "a std of 0": (changed(std=[1, 0, 1]), "expected a std of three numbers above 0, got (1, 0, 1)"),
    "an infinite mean": (changed(mean=[1, 2, float("inf")]), "expected a mean of three numbers"),
    "a temperature of 0": (changed(temperature=0), "expected a temperature above 0, got 0"),
    "no temperature": (changed(temperature=float("nan")), "expected a temperature above 0, got nan"),
    "a number as threshold": (
        changed(threshold=0.5),
        "expected a threshold from 0 to 1 of two classes, or none, got 0.5",
    ),
    "two thresholds": (
        changed(threshold=[0.5, 0.5]),
        "expected a threshold from 0 to 1 of two classes, or none, got (0.5, 0.5)",
    ),
    "one threshold of many": (
        changed(threshold=[0.5], multi_label=True),
        "expected 2 thresholds from 0 to 1, got (0.5,)",
    ),
    "a threshold of three classes": (
        changed(threshold=[0.5], classes=["a", "b", "c"], config={}),
        "expected a threshold from 0 to 1 of two classes, or none, got (0.5,)",
    ),
}


TRANSLATES = TranslateCard(model="rnn", family="seq2seq", config={"width": 8}, vocabulary='{"words": ["Riß", "根"]}')
BAD_TRANSLATES = {
    "a vocabulary of a number": ({"vocabulary": 3}, "expected a card whose vocabulary is text, got 3"),
    "one language": ({"data": {"languages": ["en"]}}, "expected a card whose data have two languages, got ['en']"),
    "a beam of 0": ({"recipe": {"beam": 0}}, "expected a recipe whose beam is an integer above 0, got 0"),
    "a penalty in words": (
        {"recipe": {"length_penalty": "x"}},
        "expected a recipe whose length_penalty is a number, got 'x'",
    ),
    "a length of 0": ({"recipe": {"max_length": 0}}, "expected a recipe whose max_length is an integer above 0, got 0"),
    "another task": ({"task": "classify"}, "expected a model for the task translate, got one for 'classify'"),
}


def test_a_model_that_translates_has_a_vocabulary_and_no_classes():
    assert read_card(TRANSLATES.text(), "a file", TranslateCard) == TRANSLATES
    assert not hasattr(TRANSLATES, "classes")


@pytest.mark.parametrize("name", BAD_TRANSLATES)
def test_a_card_of_a_translator_that_cannot_be_used(name):
    changes, message = BAD_TRANSLATES[name]
    with pytest.raises(FovealError) as caught:
        read_card(json.dumps(json.loads(TRANSLATES.text()) | changes), "a file", TranslateCard)
    assert str(caught.value) == f"a file: {message}"


def test_a_task_is_never_taken_for_another():
    with pytest.raises(FovealError, match=r"^a file: expected a model for the task classify, got one for 'translate'$"):
        read(TRANSLATES.text())
    with pytest.raises(FovealError, match=r"^a file: expected a model for the task translate, got one for 'classify'$"):
        read_card(CARD.text(), "a file", TranslateCard)


def test_the_task_of_any_text():
    assert task_in(CARD.text()) == "classify"
    assert task_in(TRANSLATES.text()) == "translate"
    assert [task_in(text) for text in ("", "{", "[]", "{}", '{"task": 3}', "[" * 100_000)] == [None] * 6


# --- before format 1 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["icam-pipes", "icam-fast-pipes"])
def test_an_old_card_of_a_classifier_is_upgraded(name):
    text = (OLD / f"{name}.json").read_text(encoding="utf-8")
    old, card = json.loads(text), read(text)
    assert (card.format, card.task, card.multi_label) == (FORMAT, "classify", True)
    assert card.classes == tuple(old["classes"])
    assert card.config == old["config"]
    assert (card.threshold, card.temperature, card.mean) == (
        tuple(old["threshold"]),
        old["temperature"],
        tuple(old["mean"]),
    )
    recipe = old["recipe"]
    assert card.recipe["config"] == recipe["settings"]
    assert (card.recipe["label_smoothing"], card.recipe["weight_decay"]) == (recipe["smoothing"], recipe["decay"])
    assert (card.recipe["checkpoint"], card.recipe["init_from"], card.recipe["fold_column"]) == ("last", None, None)
    assert not set(card.recipe) & {"settings", "smoothing", "decay", "keep", "start", "by", "truth", "backbone"}
    assert card.data["images"] == old["data"]["pictures"]
    assert card.data["splits"]["val"]["images"] == old["data"]["splits"]["val"]["pictures"]
    assert card.data["splits"]["val"]["classes"] == old["data"]["splits"]["val"]["classes"]
    assert read(card.text()) == card, "which is not upgraded again"


def test_an_old_card_of_a_translator_is_upgraded():
    text = (OLD / "transformer-tiny.json").read_text(encoding="utf-8")
    old, card = json.loads(text), read_card(text, "a file", TranslateCard)
    assert (card.format, card.vocabulary, card.languages) == (FORMAT, old["vocabulary"], ("en", "de"))
    names = {
        "subwords": "pieces",
        "vocab_size": "size",
        "max_length": "longest",
        "cuda_graphs": "recorded",
        "r_drop": "agreement",
    }
    names |= {"bleu_every": "bleu", "length_penalty": "penalty", "label_smoothing": "smoothing", "config": "settings"}
    assert {new: card.recipe[new] for new in names} == {new: old["recipe"][before] for new, before in names.items()}
    assert (card.beam, card.length_penalty) == (4, 0.6)
    fields = {"source_vocab": "source_words", "target_vocab": "target_words", "max_length": "longest"}
    assert {new: card.config[new] for new in fields} == {new: old["config"][before] for new, before in fields.items()}
    assert not set(card.config) & set(fields.values())


def test_a_card_of_format_1_whose_config_has_the_fields_of_before_is_read():
    config = {"source_words": 7, "target_words": 11, "longest": 13, "width": 8}
    old = TranslateCard(model="m", family="transformer", config=config, recipe={"config": {"longest": 13}, "beam": 3})
    card = read_card(old.text(), "a file", TranslateCard)
    assert card.config == {"source_vocab": 7, "target_vocab": 11, "max_length": 13, "width": 8}
    assert card.recipe == {"config": {"max_length": 13}, "beam": 3}
    assert read_card(card.text(), "a file", TranslateCard) == card
    other = dataclasses.replace(old, family="somebody-else-s")
    assert read_card(other.text(), "a file", TranslateCard).config == config, "whose fields mean something else"


def test_a_card_of_before_that_names_no_task_classifies():
    old = json.loads((OLD / "icam-pipes.json").read_text(encoding="utf-8"))
    del old["task"]
    assert read(json.dumps(old)).task == "classify"


# --- classes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (("a", ""), "expected names of classes in printable letters, got ''; rename the class"),
        (("a", " b"), "expected names of classes in printable letters, got ' b'; rename the class"),
        (("a", "b\x1b[31m"), "expected names of classes in printable letters, got 'b\\x1b[31m'; rename the class"),
        (("a", "b\nc"), "expected names of classes in printable letters, got 'b\\nc'; rename the class"),
        (("a", "\udcff"), "expected names of classes in printable letters, got '\\udcff'; rename the class"),
        (("a", "file"), "expected no class that is called file, found, error, got file; rename the class"),
        (("a", "b", "a"), "expected every class once, got a twice"),
        ((), "expected names of classes, got ()"),
        (["a"], "expected names of classes, got ['a']"),
    ],
)
def test_names_that_no_class_can_have(classes, message):
    with pytest.raises(FovealError) as caught:
        check_classes(classes, "a file")
    assert str(caught.value) == f"a file: {message}"


def test_names_that_a_class_can_have():
    check_classes(("Riß", "根", "a b", "a|b_c", "=1+1", "Files"), "a file")


# --- what goes to others ----------------------------------------------------------------------------------------------


def test_an_exported_file_names_no_folder_of_the_machine_that_trained():
    recipe = {
        "data": "/home/ada/secret/tiles",
        "model": "runs/a.safetensors",
        "init_from": "C:\\models\\b",
        "teachers": None,
        "lr": 1,
    }
    card = classify_card(recipe=recipe).without_paths()
    assert card.recipe == {"data": "tiles", "model": "a.safetensors", "init_from": "b", "teachers": None, "lr": 1}


# --- whatever comes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BAD)
def test_a_card_that_cannot_be_used_is_named_in_one_line(name):
    text, message = BAD[name]
    with pytest.raises(FovealError) as caught:
        read(text)
    assert str(caught.value).startswith("a file: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@given(
    name=st.sampled_from(sorted(json.loads(CARD.text()))),
    value=st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists),
)
def test_whatever_a_field_holds_a_card_is_read_or_refused(name, value):
    with contextlib.suppress(FovealError):  # and nothing else
        assert isinstance(read(changed(**{name: value})), Card)
