"""BLEU is sacrebleu's own, with its signature; the interval holds it."""

import pytest

from foveal.errors import FovealError
from foveal.metrics.bleu import by_length, translation_scores

sacrebleu = pytest.importorskip("sacrebleu")
REFERENCES = [
    "Ein Mann fährt Rad, und ein Hund läuft.",
    "Zwei Hunde spielen im Schnee.",
    "Das Kind lacht laut .",
    "Eine Frau liest ein Buch im Park.",
] * 5
TRANSLATIONS = [
    "Ein Mann fährt Rad und ein Hund läuft.",
    "zwei Hunde spielen im Schnee",
    "Das Kind weint .",
    "Eine Frau liest ein Buch.",
] * 5


def test_it_is_sacrebleus_own():
    scores = translation_scores(TRANSLATIONS, REFERENCES)
    assert scores["bleu"].value == pytest.approx(sacrebleu.corpus_bleu(TRANSLATIONS, [REFERENCES]).score)
    assert scores["lowercased"].value == pytest.approx(
        sacrebleu.corpus_bleu(TRANSLATIONS, [REFERENCES], lowercase=True).score
    )
    assert scores["chrf"].value == pytest.approx(sacrebleu.corpus_chrf(TRANSLATIONS, [REFERENCES]).score)
    assert scores["lowercased"].value > scores["bleu"].value
    assert scores["bleu"].signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    for score in scores.values():
        assert score.low < score.value < score.high
    assert translation_scores(TRANSLATIONS, REFERENCES) == scores
    assert translation_scores(TRANSLATIONS, REFERENCES, resamples=0)["bleu"].low is None


def test_all_right_and_all_wrong():
    assert translation_scores(REFERENCES, REFERENCES)["bleu"].value == pytest.approx(100)
    nothing = translation_scores([""] * 20, REFERENCES)
    assert nothing["bleu"].value == nothing["chrf"].value == 0
    with pytest.raises(FovealError, match="as many translations as the 20 references, at least one, got 3"):
        translation_scores(TRANSLATIONS[:3], REFERENCES)


def test_by_length():
    table = by_length([3, 8, 20, 3] * 5, REFERENCES, REFERENCES, (5, 10))
    assert [row[:3] for row in table] == [("1–5", 10, 3.0), ("6–10", 5, 8.0), ("11–", 5, 20.0)]
    assert all(row.bleu == pytest.approx(100) for row in table)
