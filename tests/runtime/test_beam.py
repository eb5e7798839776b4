"""Beam search against brute force, against a plain one without tricks, and its options."""

import warnings

import numpy as np
import pytest
from runtime.toy_engine import END, Toy

from foveal.errors import FovealError
from foveal.runtime.decode.batched import decode, decode_all
from foveal.runtime.decode.beam import beam_search
from foveal.runtime.decode.search import Search

SOURCES = [(7,), (8, 9), (10, 11, 12), (3, 3)]


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, -0.5])
@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_what_brute_force_finds(penalty, seed):
    search = Search(beam=64, n_best=3, length_penalty=penalty, max_length=3)
    sources = [(seed, *source) for source in SOURCES]
    toy = Toy(vocabulary=6)
    for source, found in zip(sources, beam_search(toy, sources, search), strict=True):
        every = sorted(
            toy.everything(source, 3), key=lambda words: -toy.total(source, words) / search.scale(len(words) + 1)
        )
        assert [one.tokens for one in found] == every[:3]
        for one in found:
            assert one.total == pytest.approx(toy.total(source, one.tokens))
            assert one.score == pytest.approx(one.total / search.scale(len(one.tokens) + 1))


def plainly(toy, source, search):
    """The rule of the docstring, in lists, until the longest length: nothing stops early."""
    live, finished = [((), 0.0)], []
    for length in range(1, search.limit(len(source)) + 1):
        if length == search.limit(len(source)):
            finished += [(words, total + toy.log_probabilities(source, words)[END]) for words, total in live]
            break
        grown = [
            ((*words, word), total + log_p)
            for words, total in live
            for word, log_p in enumerate(toy.log_probabilities(source, words))
        ]
        grown = sorted((one for one in grown if one[1] > -np.inf), key=lambda one: -one[1])[: 2 * search.beam]
        finished += [(words[:-1], total) for words, total in grown[: search.beam] if words[-1] == END]
        live = [one for one in grown if one[0][-1] != END][: search.beam]
    return sorted(finished, key=lambda one: -one[1] / search.scale(len(one[0]) + 1))[: search.n_best]


@pytest.mark.parametrize("beam", [2, 3, 5])
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.5, -0.3])
def test_stopping_early_and_leaving_the_batch_change_nothing(beam, penalty):
    search = Search(beam=beam, n_best=2, length_penalty=penalty, max_length=14)
    sources = [(seed, *source) for seed in range(6) for source in SOURCES]
    toy = Toy(vocabulary=8)
    together = beam_search(toy, sources, search)
    rows = toy.rows
    for source, found in zip(sources, together, strict=True):
        expected = plainly(Toy(vocabulary=8), source, search)
        assert [one.tokens for one in found] == [words for words, _ in expected]
        np.testing.assert_allclose([one.total for one in found], [total for _, total in expected])
    assert rows < len(sources) * beam * (15 if penalty > 1 else 12)  # and it was worth something


def test_a_beam_of_one_is_greedy_and_ends_with_the_first_end():
    toy = Toy()
    for source, (found,) in zip(SOURCES, decode(toy, SOURCES, Search(beam=1)), strict=True):
        drawn = []
        while (word := int(toy.log_probabilities(source, drawn).argmax())) != END:
            drawn.append(word)
        assert found.tokens == tuple(drawn)
        assert found.total == pytest.approx(toy.total(source, drawn))


@pytest.mark.parametrize("beam", [1, 3])
def test_length_and_repetition_are_held(beam):
    toy = Toy(vocabulary=5)
    for source, found in zip(
        SOURCES, decode(toy, SOURCES, Search(beam=beam, min_length=4, max_length=6, no_repeat=2)), strict=True
    ):
        (one,) = found
        assert 4 <= len(one.tokens) <= 6
        pairs = [one.tokens[place : place + 2] for place in range(len(one.tokens) - 1)]
        assert len(set(pairs)) == len(pairs)
        assert one.total == pytest.approx(toy.total(source, one.tokens))
    (short,) = decode(toy, [SOURCES[0]], Search(beam=beam, max_length=1))[0]
    assert len(short.tokens) <= 1


def test_a_vocabulary_smaller_than_the_beam():
    toy = Toy(vocabulary=4)  # one word and the end
    (found,) = beam_search(toy, [(5,)], Search(beam=5, n_best=3, max_length=3))
    assert {one.tokens for one in found} <= {(), (3,), (3, 3), (3, 3, 3)}
    assert len({one.tokens for one in found}) == 3


@pytest.mark.parametrize("penalty", [0.6, 2.0])
def test_sources_whose_sentences_may_be_of_different_lengths(penalty):
    search = Search(beam=4, n_best=4, length_penalty=penalty)
    sources = [(seed, *([5] * length)) for seed in range(3) for length in (0, 2, 4)]
    for batch in (sources, sources[:1], sources[2:5]):
        for source, found in zip(batch, beam_search(Toy(vocabulary=8, sharp=0.5), batch, search), strict=True):
            expected = plainly(Toy(vocabulary=8, sharp=0.5), source, search)
            assert [one.tokens for one in found] == [words for words, _ in expected]
            assert len({one.tokens for one in found}) == 4


@pytest.mark.parametrize(
    "search", [{"beam": 3}, {"beam": 1}, {"sample": True}, {"sample": True, "temperature": 1e-310}]
)
def test_there_is_always_a_sentence(search):
    """Of three words each may come once, and after that neither a word nor the end.

    Then the sentence ends where it is.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for found in decode(Toy(vocabulary=6), SOURCES, Search(no_repeat=1, min_length=9, **search)):
            assert sorted(found[0].tokens) == [3, 4, 5]
            assert np.isfinite(found[0].total)
        # fewer positions than words are wanted
        cut = decode(Toy(vocabulary=6), SOURCES, Search(min_length=9, max_positions=3, **search))
        assert [len(found[0].tokens) for found in cut] == [2, 2, 2, 2]
        assert all(np.isfinite(found[0].total) for found in cut)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_model_that_gives_no_numbers_is_refused(beam):
    class Broken(Toy):
        def log_probabilities(self, source, drawn):
            return np.full(self.vocabulary, np.nan)

    with pytest.raises(
        FovealError, match="the model: expected log-probabilities of tokens, got NaN; its weights are damaged"
    ):
        decode(Broken(), SOURCES, Search(beam=beam))


@pytest.mark.parametrize(
    "options", [{"beam": 1001}, {"length_penalty": 10.5}, {"length_penalty": -1000.0}, {"length_penalty": float("nan")}]
)
def test_what_no_search_can_be(options):
    with pytest.raises(
        FovealError,
        match=r"the search's (beam: expected at most 1000|length_penalty: expected a number from -10 to 10)",
    ):
        Search(**options)
    near = Search(beam=1000, length_penalty=-10.0)
    assert np.isfinite([near.scale(words) for words in (1, 100_000)]).all()


def test_what_is_drawn_does_not_depend_on_what_stands_beside():
    sources = [(5,) * length for length in (3, 1, 4, 3, 1, 3)]
    search = Search(sample=True, seed=2, max_length=8)
    alone = [decode(Toy(), [source], search, [place])[0][0].tokens for place, source in enumerate(sources)]
    assert len({alone[0], alone[3], alone[5]}) > 1, "one source, drawn three times"
    for batch in (1, 2, 100):
        assert [found[0].tokens for found in decode_all(Toy(), sources, search, batch)] == alone
    assert [found[0].tokens for found in decode_all(Toy(), sources[2:], search, 3, first=2)] == alone[2:]


def test_an_order_of_lengths_is_put_back():
    sources = [(5,) * length for length in (3, 1, 0, 7, 2, 7, 0)]
    alone = [decode(Toy(), [source], Search(beam=3))[0] if source else None for source in sources]
    for batch in (1, 2, 100):
        together = decode_all(Toy(), sources, Search(beam=3), batch)
        for one, other in zip(alone, together, strict=True):
            assert (one[0].tokens if one else ()) == other[0].tokens
    assert decode_all(Toy(), [], Search(), 4) == []


def test_drawn_sentences_come_as_often_as_they_are_likely():
    toy = Toy(vocabulary=5, sharp=1.0)
    count = 4000
    (found,) = decode(toy, [(1, 2)], Search(sample=True, n_best=count, max_length=2))
    drawn = [one.tokens for one in found]
    for words in ((), (3,), (4,), (3, 4)):
        probability = (
            np.exp(toy.total((1, 2), words))
            if len(words) < 2
            else np.exp(toy.total((1, 2), words) - toy.log_probabilities((1, 2), words)[END])
        )
        assert drawn.count(words) / count == pytest.approx(probability, abs=5 * np.sqrt(probability / count))
    assert [one.tokens for one in decode(toy, [(1, 2)], Search(sample=True, n_best=9, seed=3))[0]] == [
        one.tokens for one in decode(toy, [(1, 2)], Search(sample=True, n_best=9, seed=3))[0]
    ]
    coldest = decode(toy, SOURCES, Search(sample=True, temperature=1e-3))
    assert [one[0].tokens for one in coldest] == [one[0].tokens for one in decode(toy, SOURCES, Search(beam=1))]
    for narrow in ({"top_k": 1}, {"top_p": 1e-6}):
        assert [one[0].tokens for one in decode(toy, SOURCES, Search(sample=True, **narrow))] == [
            one[0].tokens for one in coldest
        ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beam": 0}, "the search's beam: expected"),
        ({"n_best": 5}, "the search's n_best: expected at most the beam, 4, got 5"),
        ({"max_length": 3, "min_length": 4}, "the search's max_length: expected at least the min_length, 4, got 3"),
        ({"length_penalty": float("nan")}, "the search's length_penalty: expected a number"),
        ({"temperature": 0}, "the search's temperature: expected a number above 0"),
        ({"top_p": 1.5}, "the search's top_p: expected a number above 0, at most 1"),
        ({"no_repeat": -1}, "the search's no_repeat: expected"),
    ],
)
def test_options_that_cannot_be(options, words):
    with pytest.raises(FovealError) as caught:
        Search(**options)
    assert words in str(caught.value)
