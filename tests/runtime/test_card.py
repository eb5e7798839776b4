import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import foveal
from foveal.errors import FovealError
from foveal.runtime.card import Card, read_card

CARD = Card("icam-31k", "icam", {"classes": 2, "width": 24}, ("sound", "crack"))


def changed(**changes):
    return json.dumps(json.loads(CARD.text()) | changes)


def without(*names):
    return json.dumps({name: value for name, value in json.loads(CARD.text()).items() if name not in names})


def test_a_card_says_by_itself_what_it_was_not_told():
    assert CARD.task == "classify"
    assert CARD.foveal == foveal.__version__
    assert CARD.mean == (0.523, 0.453, 0.345)  # of Sewer-ML
    assert CARD.std == (0.210, 0.199, 0.154)


FULL = Card(
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
    assert read_card(card.text(), "a file") == card
    assert "\n" not in card.text()


@given(
    names=st.lists(st.text(max_size=9), min_size=1, max_size=5),
    temperature=st.floats(1e-3, 1e3),
    note=st.text(max_size=30),
    multi_label=st.booleans(),
)
def test_any_names_and_numbers_are_read_as_they_were(names, temperature, note, multi_label):
    threshold = tuple(index / 7 for index in range(len(names))) if multi_label else None
    card = Card("m", "icam", {}, tuple(names), multi_label, temperature=temperature, note=note, threshold=threshold)
    assert read_card(card.text(), "a file") == card


def test_what_a_later_foveal_of_the_same_version_adds_is_left_aside():
    assert read_card(changed(colour="red"), "a file") == CARD


def test_only_what_a_model_needs_must_be_there():
    assert read_card(without("mean", "note", "foveal", "threshold", "data"), "a file") == CARD


@pytest.mark.parametrize("version", ["0.0.9", "0.1", foveal.__version__, foveal.__version__ + "rc1"])
def test_cards_of_versions_before_are_read(version):
    assert read_card(changed(foveal=version), "a file").foveal == version


BAD = {
    "label": (changed(recipe={"label": 5}), "expected a recipe whose label is text, got 5"),
    "by": (changed(recipe={"by": ["a"]}), "expected a recipe whose by is text, got ['a']"),
    "fold": (changed(recipe={"fold": "all"}), "expected a recipe whose fold is a number, got 'all'"),
    "blank": (changed(recipe={"blank": None}), "expected a recipe whose blank is a list of boxes, got None"),
    "box": (changed(recipe={"blank": [[0, 1, 2]]}), "expected a recipe whose blank is a list of boxes, got [[0, 1, 2]]"),
    "no JSON": ("{", "expected a card of foveal's in JSON, got something else; the file is damaged"),
    "deep JSON": ("[" * 100_000, "expected a card of foveal's in JSON"),
    "a list": ("[]", "expected a card of foveal's, got list"),
    "nothing": ("{}", "expected a card with model, family, config and classes, got one without classes, config, family, model"),
    "no classes": (without("classes"), "got one without classes"),
    "another task": (changed(task="segment"), "expected a model that classifies, got one that does 'segment'"),
    "a newer foveal": (changed(foveal="9.0.0"), f"expected a file of foveal {foveal.__version__} or before, got one of '9.0.0'; upgrade"),
    "a long version": (changed(foveal="9" * 5000), "upgrade foveal"),
    "an odd digit": (changed(foveal="²", task="x"), "expected a model that classifies"),
    "a number as model": (changed(model=3), "expected a card whose model is text, got 3"),
    "a list as family": (changed(family=["icam"]), "expected a card whose family is text"),
    "a number as config": (changed(config=3), "expected a card whose config has names and values, got 3"),
    "no class": (changed(classes=[]), "expected names of classes, got ()"),
    "numbers as classes": (changed(classes=[1, 2]), "expected names of classes, got (1, 2)"),
    "text as classes": (changed(classes="ab"), "expected names of classes, got 'ab'"),
    "another number of classes": (changed(classes=["a", "b", "c"]), "expected 2 names of classes, got 3"),
    "many as text": (changed(multi_label="no"), "expected a card whose many is true or false, got 'no'"),
    "no size": (changed(size=0), "expected a size in pixels, got 0"),
    "a mean of one": (changed(mean=[0.5]), "expected a mean of three numbers, got (0.5,)"),
    "a std of 0": (changed(std=[1, 0, 1]), "expected a std of three numbers above 0, got (1, 0, 1)"),
    "an infinite mean": (changed(mean=[1, 2, float("inf")]), "expected a mean of three numbers"),
    "a temperature of 0": (changed(temperature=0), "expected a temperature above 0, got 0"),
    "no temperature": (changed(temperature=float("nan")), "expected a temperature above 0, got nan"),
    "a number as threshold": (changed(threshold=0.5), "expected a threshold of two classes, or none, got 0.5"),
    "two thresholds": (changed(threshold=[0.5, 0.5]), "expected a threshold of two classes, or none, got (0.5, 0.5)"),
    "one threshold of many": (changed(threshold=[0.5], multi_label=True), "expected 2 thresholds, got (0.5,)"),
    "a threshold of three classes": (
        changed(threshold=[0.5], classes=["a", "b", "c"], config={}),
        "expected a threshold of two classes, or none, got (0.5,)",
    ),
}


TRANSLATES = Card("rnn", "seq2seq", {"width": 8}, (), task="translate", vocabulary='{"words": ["Riß", "根"]}')


def test_a_model_that_translates_has_a_vocabulary_and_no_classes():
    assert read_card(TRANSLATES.text(), "a file", "translate") == TRANSLATES
    facts = json.loads(TRANSLATES.text())
    for changes, said in (
        ({"classes": ["a"]}, "expected no classes of a model that translates, got ('a',)"),
        ({"vocabulary": 3}, "expected a card whose vocabulary is text, got 3"),
        ({"task": "classify"}, "expected a model that translates, got one that does 'classify'"),
    ):
        with pytest.raises(FovealError) as caught:
            read_card(json.dumps(facts | changes), "a file", "translate")
        assert str(caught.value) == f"a file: {said}"


def test_a_task_is_never_taken_for_another():
    with pytest.raises(FovealError, match=r"^a file: expected a model that classifies, got one that does 'translate'$"):
        read_card(TRANSLATES.text(), "a file")
    with pytest.raises(FovealError, match=r"^a file: expected a model that translates, got one that does 'classify'$"):
        read_card(CARD.text(), "a file", "translate")
    with pytest.raises(FovealError, match="the task: expected one of classify, translate, got 'sing'"):
        read_card(CARD.text(), "a file", "sing")


@pytest.mark.parametrize("name", BAD)
def test_a_card_that_cannot_be_used_is_named_in_one_line(name):
    text, said = BAD[name]
    with pytest.raises(FovealError) as caught:
        read_card(text, "a file")
    assert str(caught.value).startswith("a file: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@given(
    name=st.sampled_from(sorted(json.loads(CARD.text()))), value=st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists)
)
def test_whatever_a_field_holds_a_card_is_read_or_refused(name, value):
    with contextlib.suppress(FovealError):  # and nothing else
        assert isinstance(read_card(changed(**{name: value}), "a file"), Card)
