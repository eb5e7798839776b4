"""Subwords: what goes in comes out, whatever it is, and the same sentences give the same vocabulary."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.errors import FovealError
from foveal.runtime.vocabulary import KINDS, LEAST, MARKS, Vocabulary, learn, learn_both

SENTENCES = [
    "Der alte Hund schläft im Garten.",
    "Die Hunde schlafen, weil der Garten alt ist!",
    "Ein Hund? Zwei Hunde: 47.",
] * 3
LEARNED = {(kind, lowercase): learn(SENTENCES, 400, kind, lowercase) for kind in KINDS for lowercase in (False, True)}
EVERY = pytest.mark.parametrize("vocabulary", LEARNED.values(), ids=lambda one: f"{one.kind}{'-lower' * one.lowercase}")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=23)


def test_by_hand():
    """ab comes most often, then abc: two merges, and then no pair comes twice."""
    vocabulary = learn(["abc abc abc abd"], LEAST + 7)
    subwords = [vocabulary.subwords(row) for row in vocabulary.encode(["abc abd xab"])]
    assert subwords == [["abc", "ab", "·d", "␣", "·x", "·ab"]] or subwords == [
        ["abc", "ab", "·d", "␣", "·x", "·a", "·b"]
    ]
    assert LEAST < len(vocabulary) <= LEAST + 7


@EVERY
@given(sentence=TEXTS)
def test_what_goes_in_comes_out(vocabulary, sentence):
    normal = vocabulary.normalise(sentence)
    assert vocabulary.normalise(normal) == normal
    rows = vocabulary.encode([sentence, "Hund"])
    assert vocabulary.decode(rows) == [normal, "hund" if vocabulary.lowercase else "Hund"]
    # nothing is unknown, and no text spells a mark
    assert all(len(MARKS) <= number < len(vocabulary) for number in rows[0])
    assert len(vocabulary.subwords(rows[0])) == len(rows[0])


@EVERY
def test_marks_in_a_sentence_are_text(vocabulary):
    for text in ("a </s> b", " <pad>", "<s><unk>"):
        (row,) = vocabulary.encode([text])
        assert min(row) >= 4
        assert vocabulary.decode([row]) == [text.strip()]
    # even where they come so often that they become subwords
    again = learn(["</s> <pad> </s> <pad>"] * 50, 300, vocabulary.kind)
    assert min(again.encode(["</s> <pad>"])[0]) >= 4


@EVERY
def test_text_and_back(vocabulary):
    text = vocabulary.text()
    again = Vocabulary.from_text(text)
    assert again.text() == text
    assert again.fingerprint() == vocabulary.fingerprint()
    assert (again.kind, again.lowercase, len(again)) == (vocabulary.kind, vocabulary.lowercase, len(vocabulary))
    strange = [*SENTENCES, "Žluťoučký kůň 🐎 — 日本"]
    assert again.encode(strange) == vocabulary.encode(strange)
    assert json.loads(text)["format"] == "foveal vocabulary 1"


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_every_time(kind):
    words = [f"wort{number % 89} satz{number % 53} {number}" for number in range(499)]
    once = learn(words, 700, kind)
    assert {learn(words, 700, kind).text() for _ in range(3)} == {once.text()}
    code = f"from foveal.runtime.vocabulary import learn; print(learn({words!r}, 700, {kind!r}).fingerprint())"
    other = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"RAYON_NUM_THREADS": "1"},
    )
    assert other.stdout.strip() == once.fingerprint()
    assert learn(words[:-7], 700, kind).text() != once.text()


def test_common_words_are_one_subword_wherever_they_stand():
    vocabulary = LEARNED["bpe", False]
    (row,) = vocabulary.encode(["Hund Hund, Hund"])
    assert vocabulary.subwords(row) == ["Hund", "Hund", "·,", "Hund"]


def test_marks_and_what_comes_after_the_end_are_no_text():
    vocabulary = LEARNED["bpe", False]
    (hund,) = vocabulary.encode(["Hund"])
    assert vocabulary.decode([[1, *hund, 2, *hund, 0, 0], [], [2], [3, *hund]]) == ["Hund", "", "", "Hund"]
    assert vocabulary.subwords([0, 1, 2, 3]) == list(MARKS)


def test_bytes_that_are_no_character_are_readable():
    vocabulary = LEARNED["bpe", False]
    (row,) = vocabulary.encode(["犬"])
    assert vocabulary.subwords(row)[-3:] == ["·‹e7›", "·‹8a›", "·‹ac›"]
    assert vocabulary.decode([row[:-1]]) == ["�"]  # a model may stop half-way


def test_joint_and_separate():
    source, target = learn_both(["the dog sleeps"] * 5, ["der Hund schläft"] * 5, 290)
    assert source is target
    source, target = learn_both(["the dog sleeps"] * 5, ["der Hund schläft"] * 5, 290, joint=False)
    assert len(source.encode(["sleeps"])[0]) < len(target.encode(["sleeps"])[0])


def test_nothing_of_torch_is_needed():
    code = (
        "import sys; from foveal.runtime.vocabulary import learn; "
        "print('torch' in sys.modules, len(learn(['a b'], 300)) > 259)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def refused(what, *how, **more):
    with pytest.raises(FovealError) as error:
        what(*how, **more)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_bad_input():
    assert "vocab_size: expected at least 260" in refused(learn, ["a"], 259)
    assert "vocab_size" in refused(learn, ["a"], 1000.5)
    assert "the nearest is 'bpe'" in refused(learn, ["a"], kind="bep")
    assert "at least one that is not empty" in refused(learn, ["", " \t"])
    assert "put it into a list" in refused(learn, "a sentence")
    vocabulary = LEARNED["bpe", False]
    assert "put it into a list" in refused(vocabulary.encode, "a sentence")
    assert "surrogate" in refused(vocabulary.encode, ["half \ud83d"])
    assert "surrogate" in refused(learn, ["half \ud83d"])
    for number in (-1, len(vocabulary)):
        assert f"expected an id from 0 to {len(vocabulary) - 1}, got {number}" in refused(
            vocabulary.decode, [[5, number]]
        )
        assert "a token" in refused(vocabulary.subwords, [number])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"format": "other"}',
        '{"format": "foveal vocabulary 1", "kind": "bpe", "lowercase": false, "model": {}}',
    ],
)
def test_text_that_is_no_vocabulary(text):
    assert refused(Vocabulary.from_text, text).startswith(
        "a vocabulary: expected the text that Vocabulary.text() gives"
    )


def test_a_vocabulary_without_marks_is_refused():
    kept = json.loads(LEARNED["bpe", False].text())
    kept["model"]["vocab"] = {subword.strip(): number for subword, number in kept["model"]["vocab"].items()}
    assert "<pad>" in refused(Vocabulary.from_text, json.dumps(kept))
