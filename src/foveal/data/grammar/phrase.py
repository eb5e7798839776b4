"""Noun phrases: who and what.

English has one form of each, German one for every case, with articles and adjectives that agree.

the old dog   nominative der alte Hund   accusative den alten Hund   dative dem alten Hund
an old dog               ein alter Hund             einen alten Hund        einem alten Hund
"""

from dataclasses import dataclass

from foveal.data.grammar.words import Noun

NOMINATIVE, ACCUSATIVE, DATIVE = range(3)
# Endings by case, each for masculine, feminine, neuter and plural.
_THE = ("der die das die", "den die das die", "dem der dem den")
_STRONG = ("er e es e", "en e es e", "em er em en")  # of dies-, and of an adjective that no article precedes
_MIXED = ("er e es en", "en e es en", "en en en en")  # of an adjective after ein, mein, kein
_WEAK = ("e e e en", "en e e en", "en en en en")  # of an adjective after der, dies-
_POSSESSIVE = ("- e - e", "en e - e", "em er em en")  # of ein, mein, kein itself
_PLACE = "mfn"
_EIN = {"a": "ein", "my": "mein", "our": "unser", "no": "kein"}
_DER = {"this": "dies", "every": "jed", "these": "dies"}


@dataclass(frozen=True)
class Phrase:
    """What can be a subject or an object."""

    english: str
    german: tuple[str, str, str]  # nominative, accusative, dative
    person: str = "er"  # whose form the German verb has: ich, er or wir
    pronoun: bool = False
    absent: tuple[str, str, str] = ("", "", "")  # with kein, where that is how it is denied
    object: str = ""  # of a pronoun in English: him
    gender: str = ""  # of what a relative clause may follow

    @property
    def singular(self) -> bool:
        return self.person == "er"


I = Phrase("I", ("ich", "mich", "mir"), "ich", True, object="me")  # noqa: E741 — the pronoun
HE = Phrase("he", ("er", "ihn", "ihm"), "er", True, object="him")
SHE = Phrase("she", ("sie", "sie", "ihr"), "er", True, object="her")
WE = Phrase("we", ("wir", "uns", "uns"), "wir", True, object="us")
THEY = Phrase("they", ("sie", "sie", "ihnen"), "wir", True, object="them")
PRONOUNS = (I, HE, SHE, WE, THEY)


def name(spelled: str) -> Phrase:
    return Phrase(spelled, (spelled, spelled, spelled))


def of_noun(noun: Noun, article: str, adjectives: list[tuple[str, str]], number: str = "", zahl: str = "") -> Phrase:
    """article: the, a, my, our, this, every, these, a name with 's, or "". number, zahl: how many,
    in both languages.
    """
    plural = bool(number) or article in ("", "these")
    english = " ".join(
        part
        for part in (article, number, *(word for word, _ in adjectives), noun.multi_label if plural else noun.one)
        if part
    )
    if article == "a" and english[2] in "aeiou":
        english = f"an{english[1:]}"
    german = tuple(_german(noun, article, adjectives, zahl, plural, case) for case in range(3))
    denied = article in ("a", "") and not number
    absent = tuple(_german(noun, "no", adjectives, "", plural, case) for case in range(3)) if denied else ("", "", "")
    gender = "p" if plural else noun.gender
    return Phrase(english, german, "wir" if plural else "er", absent=absent, gender=gender)  # type: ignore[arg-type]


def _german(noun: Noun, article: str, adjectives: list[tuple[str, str]], zahl: str, plural: bool, case: int) -> str:
    place = 3 if plural else _PLACE.index(noun.gender)
    if article == "the":
        before, endings = _THE[case].split()[place], _WEAK
    elif article in _DER:
        before, endings = _DER[article] + _STRONG[case].split()[place], _WEAK
    elif article in _EIN:
        before, endings = _EIN[article] + _POSSESSIVE[case].split()[place].strip("-"), _MIXED
    else:  # nothing, or whose it is
        before, endings = _genitive(article.removesuffix("'s")), _STRONG
    word = noun.mehrzahl if plural else noun.einzahl
    if plural and case == DATIVE and word[-1] not in "ns":
        word += "n"
    ending = endings[case].split()[place]
    return " ".join(part for part in (before, zahl, *(stem + ending for _, stem in adjectives), word) if part)


def _genitive(spelled: str) -> str:
    """Talvin: Talvins. Boris: Boris'."""
    if not spelled:
        return ""
    return f"{spelled}'" if spelled[-1] in "sxz" else f"{spelled}s"


def relative(gender: str) -> str:
    """who, as the subject of a clause."""
    return _THE[NOMINATIVE].split()[3 if gender == "p" else _PLACE.index(gender)]
