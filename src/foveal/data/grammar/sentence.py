"""Sentences drawn from the grammar: statements, questions, and clauses within clauses."""

import random
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from foveal.data.grammar import number
from foveal.data.grammar.clause import Clause
from foveal.data.grammar.phrase import DATIVE, HE, NOMINATIVE, PRONOUNS, SHE, THEY, Phrase, name, of_noun, relative
from foveal.data.grammar.words import (
    ADJECTIVES,
    ALONE,
    BECAUSE,
    BEGINNINGS,
    ENDS,
    MIDDLES,
    NOUNS,
    PLACES,
    SAYING,
    TIMES,
    WEEKDAYS,
    WITH_OBJECT,
    WITH_TWO_OBJECTS,
    Verb,
)

_Item = TypeVar("_Item")
_CONTRACTED = {"in dem": "im", "bei dem": "beim"}
_ASKED = {"when": "wann", "where": "wo", "why": "warum"}
_ARTICLES = ("the", "the", "a", "my", "our", "this", "these", "", "number", "name")
_WHO = Phrase("who", ("wer", "wen", "wem"))


def sentences(seed: int) -> Iterator[tuple[str, str]]:
    """English and German, without end and without a sentence that came before."""
    draw, seen = _Draw(seed), set[str]()
    while True:
        english, german = draw.sentence()
        if english not in seen:
            seen.add(english)
            yield english, german


class _Draw:
    """Only random() is called, whose numbers Python promises to keep from one version to the next."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random

    def sentence(self) -> tuple[str, str]:
        shapes = (
            self.statement,
            self.fronted,
            self.question,
            self.asked,
            self.who,
            self.reason,
            self.condition,
            self.report,
            self.purpose,
            self.described,
        )
        english, german, end = self.one(shapes)()
        return f"{english[0].upper()}{english[1:]}{end}", f"{german[0].upper()}{german[1:]}{end}"

    def statement(self) -> tuple[str, str, str]:
        clause = self.clause()
        return clause.english(), clause.german(), "."

    def fronted(self) -> tuple[str, str, str]:
        """Today the baker sleeps. Heute schläft der Bäcker."""
        clause = self.clause(time=True)
        return clause.english(front=True), clause.german(front=True), "."

    def question(self) -> tuple[str, str, str]:
        clause = self.clause(denied=False)
        return clause.english_question(), clause.german_inverted(), "?"

    def asked(self) -> tuple[str, str, str]:
        word = self.one(tuple(_ASKED))
        clause = self.clause(
            denied=False, time=False if word == "when" else None, place=False if word == "where" else None
        )
        return clause.english_question(word), clause.german_inverted(_ASKED[word]), "?"

    def who(self) -> tuple[str, str, str]:
        clause = self.clause(subject=_WHO)
        return clause.english(), clause.german(), "?"

    def reason(self) -> tuple[str, str, str]:
        """The verb goes to the end of the second clause;
        or that clause comes first, and the main one is turned round.
        """
        word, tense = self.one(tuple(BECAUSE)), self.one(("present", "past"))
        main, aside = self.clause(tense, short=True), self.clause(tense, short=True)
        return self._joined(main, aside, word, BECAUSE[word])

    def condition(self) -> tuple[str, str, str]:
        main, aside = self.clause(self.one(("present", "future")), short=True), self.clause("present", short=True)
        return self._joined(main, aside, "if", "wenn")

    def report(self) -> tuple[str, str, str]:
        tense = self.one(("present", "past"))
        main = Clause(self.someone(), self.one(SAYING), tense, denied=self.chance(0.2))
        reported = self.clause(tense if tense == "past" else None)
        return f"{main.english()} that {reported.english()}", f"{main.german()}, {reported.german_last('dass')}", "."

    def purpose(self) -> tuple[str, str, str]:
        """The one who does it wants it: to call the doctor, um die Ärztin anzurufen."""
        main = Clause(self.someone(), self.one(ALONE), self.one(("present", "past")), place=self.where())
        aim = self.clause(
            "present", denied=False, time=False, place=False, modal=False, transitive=True, subject=main.subject
        )
        return f"{main.english()} {aim.english_purpose()}", f"{main.german()}, {aim.german_purpose()}", "."

    def described(self) -> tuple[str, str, str]:
        """The doctor who called him laughs. Die Ärztin, die ihn angerufen hat, lacht."""
        who = self.noun_phrase("person", ("the", "this", "every"))
        silent = Phrase("who", ("", "", ""), who.person)  # the relative pronoun has its place already
        aside = self.clause(self.one(("present", "past")), subject=silent, time=False)
        main = self.clause(short=True, subject=Phrase("", ("", "", ""), who.person))
        german = f"{who.german[NOMINATIVE]}, {aside.german_last(relative(who.gender))}, {main.german()}"
        return f"{who.english} {aside.english()} {main.english()}", german, "."

    def _joined(self, main: Clause, aside: Clause, word: str, german: str) -> tuple[str, str, str]:
        if self.chance(0.4):
            return (
                f"{word} {aside.english()}, {main.english()}",
                f"{aside.german_last(german)}, {main.german_inverted()}",
                ".",
            )
        return f"{main.english()} {word} {aside.english()}", f"{main.german()}, {aside.german_last(german)}", "."

    def clause(
        self,
        tense: str | None = None,
        *,
        subject: Phrase | None = None,
        denied: bool | None = None,
        time: bool | None = None,
        place: bool | None = None,
        modal: bool | None = None,
        transitive: bool = False,
        short: bool = False,
    ) -> Clause:
        """None: by chance. short: no place, and rarely a time."""
        tense = tense or self.one(("present", "past", "future"))
        subject = subject or self.someone()
        parts: dict[str, Any] = {"denied": self.chance(0.2) if denied is None else denied}
        kind = self.random()
        verb = (
            self.one(ALONE)
            if kind < 0.25 and not transitive
            else self.one(WITH_OBJECT)
            if kind < 0.8
            else self.one(WITH_TWO_OBJECTS)
        )
        if verb.takes:
            parts["object"] = self.what(verb, subject)
            if verb in WITH_TWO_OBJECTS:
                parts["receiver"] = self.someone(apart_from=subject)
        if tense == "present" and (self.chance(0.25) if modal is None else modal):
            parts["modal"] = self.one(("can", "want", "have"))
        if (self.chance(0.3) and not short) if place is None else place:
            parts["place"] = self.where()
        if self.chance(0.15 if short else 0.4) if time is None else time:
            parts["time"] = self.when(tense)
        return Clause(subject, verb, tense, **parts)

    def someone(self, apart_from: Phrase | None = None) -> Phrase:
        kind = self.random()
        if kind < 0.25:
            return self.one([pronoun for pronoun in PRONOUNS if not _same(pronoun, apart_from)])
        return name(self.name()) if kind < 0.5 else self.noun_phrase("person")

    def what(self, verb: Verb, subject: Phrase) -> Phrase:
        kind = self.one(verb.takes)
        if kind == "person" and self.chance(0.3):
            return self.one([pronoun for pronoun in (HE, SHE, THEY) if not _same(pronoun, subject)])
        if kind == "person" and self.chance(0.2):
            return name(self.name())
        return self.noun_phrase(kind)

    def noun_phrase(self, kind: str, articles: Sequence[str] = _ARTICLES) -> Phrase:
        noun, article = self.one(NOUNS[kind]), self.one(articles)
        adjectives = [self.one(tuple(ADJECTIVES[kind].items()))] if self.chance(0.35) else []
        if article == "number":
            multi_label = 2 + int(98 * self.random() ** 2)
            forms = (
                (str(multi_label * 7), str(multi_label * 7))
                if self.chance(0.2)
                else (number.english(multi_label), number.german(multi_label))
            )
            return of_noun(noun, "", adjectives, *forms)
        return of_noun(noun, f"{self.name()}'s" if article == "name" else article, adjectives)

    def where(self) -> tuple[str, str]:
        before = self.one(tuple(PLACES))
        phrase = self.noun_phrase("place", ("the", "the", "a", "my", "this"))
        german = f"{PLACES[before]} {phrase.german[DATIVE]}"
        for long, short in _CONTRACTED.items():
            if german.startswith(f"{long} "):
                german = short + german.removeprefix(long)
        return f"{before} {phrase.english}", german

    def when(self, tense: str) -> tuple[str, str]:
        kind = self.random()
        if kind < 0.5:
            return self.one(tuple(TIMES[tense].items()))
        if kind < 0.8:
            return number.clock(1 + int(11 * self.random()), int(4 * self.random()))
        if tense == "past" and kind < 0.9:
            year = str(1800 + int(220 * self.random()))
            return f"in {year}", f"im Jahr {year}"
        day = self.one(tuple(WEEKDAYS))
        return f"on {day}", f"am {WEEKDAYS[day]}"

    def name(self) -> str:
        """Two or three syllables: nobody has a list of them, and they are no words of the grammar."""
        syllables = [self.one(BEGINNINGS) + self.one(MIDDLES) for _ in range(3 if self.chance(0.3) else 2)]
        return ("".join(syllables) + self.one(ENDS)).capitalize()

    def one(self, items: Sequence[_Item]) -> _Item:
        return items[int(len(items) * self.random())]

    def chance(self, share: float) -> bool:
        return self.random() < share


def _same(one: Phrase, other: Phrase | None) -> bool:
    """Whether both may mean the same person, who would be himself: he, him; she; I, we."""
    if other is None or not other.pronoun:
        return False
    first = {"I", "we"}
    return one is other or {one.english, other.english} <= first
