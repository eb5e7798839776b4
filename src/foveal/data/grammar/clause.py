"""Clauses: one meaning, in English and in German.

English keeps its verb in the middle and asks with do. German has the verb second, and first in a question; a prefix, a
participle or an infinitive ends the clause; after weil, dass and the like the whole verb does. Time goes before place
and before objects that are no pronouns.

    because she picked him up yesterday      weil sie ihn gestern abgeholt hat
"""

from dataclasses import dataclass

from foveal.data.grammar.phrase import ACCUSATIVE, DATIVE, NOMINATIVE, Phrase
from foveal.data.grammar.words import Verb

_FINITE = {  # of what stands with another verb: ich, er, wir
    "haben": ("habe", "hat", "haben"),
    "sein": ("bin", "ist", "sind"),
    "future": ("werde", "wird", "werden"),
    "can": ("kann", "kann", "können"),
    "want": ("will", "will", "wollen"),
    "have": ("muss", "muss", "müssen"),
}
_PERSONS = ("ich", "er", "wir")


@dataclass(frozen=True)
class Clause:
    subject: Phrase
    verb: Verb
    tense: str = "present"  # present, past, future
    modal: str = ""  # can, want (to), have (to); in the present only
    denied: bool = False
    object: Phrase | None = None
    receiver: Phrase | None = None
    place: tuple[str, str] | None = None  # in English and in German
    time: tuple[str, str] | None = None

    def english(self, front: bool = False) -> str:
        """A statement; front: the time comes first."""
        time = self.time[0] if self.time and front else ""
        return _joined(time, self.subject.english, *self._english_verb(), *self._english_rest(not front))

    def english_question(self, word: str = "") -> str:
        """word: when, where, why; "": yes or no."""
        auxiliary, bare = self._asked()
        return _joined(word, auxiliary, self.subject.english, *self._placed(bare), *self._english_rest(True))

    def english_purpose(self) -> str:
        """to call the doctor."""
        return _joined("to", *self._placed(self.verb.base), *self._english_rest(True))

    def german(self, front: bool = False) -> str:
        """A statement: the verb is second, whatever comes first."""
        finite, end = self._german_verb()
        subject = self.subject.german[NOMINATIVE]
        if front and self.time:
            return _joined(self.time[1], finite, subject, *self._middle(False), end)
        return _joined(subject, finite, *self._middle(True), end)

    def german_inverted(self, word: str = "") -> str:
        """The verb first, or after the question word: a question, or what follows a clause that came first."""
        finite, end = self._german_verb()
        return _joined(word, finite, self.subject.german[NOMINATIVE], *self._middle(True), end)

    def german_last(self, conjunction: str) -> str:
        """The verb last, after weil or dass; after a relative pronoun that is the subject itself."""
        finite, end = self._german_verb(last=True)
        return _joined(conjunction, self.subject.german[NOMINATIVE], *self._middle(True), end, finite)

    def german_purpose(self) -> str:
        """um die Ärztin anzurufen."""
        prefix, infinitive = self.verb.prefix, self.verb.infinitive
        return _joined("um", *self._middle(True), f"{prefix}zu{infinitive}" if prefix else f"zu {infinitive}")

    def _english_verb(self) -> list[str]:
        verb, third = self.verb, self.subject.singular
        if self.denied:
            auxiliary, bare = self._asked()
            return ["cannot" if auxiliary == "can" else f"{auxiliary} not", *self._placed(bare)]
        if self.modal == "can":
            return ["can", *self._placed(verb.base)]
        if self.modal:
            return [
                {"want": "wants", "have": "has"}[self.modal] if third else self.modal,
                "to",
                *self._placed(verb.base),
            ]
        if self.tense == "future":
            return ["will", *self._placed(verb.base)]
        return self._placed(verb.past if self.tense == "past" else verb.third if third else verb.base)

    def _asked(self) -> tuple[str, str]:
        """The auxiliary of a question or of a denial, and the verb that stays behind it."""
        if self.modal == "can":
            return "can", self.verb.base
        if self.tense != "present":
            return ("did" if self.tense == "past" else "will"), self.verb.base
        return (
            "does" if self.subject.singular else "do"
        ), f"{self.modal} to {self.verb.base}" if self.modal else self.verb.base

    def _placed(self, verb: str) -> list[str]:
        """picks up the teacher, picks him up."""
        if self.object is not None and self.object.pronoun:
            return [verb, self.object.object, self.verb.particle]
        if self.object is not None and self.receiver is not None:
            return [verb, self.receiver.object or self.receiver.english, self.object.english]
        return [verb, self.verb.particle, self.object.english if self.object is not None else ""]

    def _english_rest(self, time: bool) -> list[str]:
        return [self.place[0] if self.place else "", self.time[0] if self.time and time else ""]

    def _german_verb(self, last: bool = False) -> tuple[str, str]:
        """What is conjugated, and what stands at the end."""
        verb, person = self.verb, _PERSONS.index(self.subject.person)
        whole = verb.prefix + verb.infinitive
        if self.tense == "past":
            return _FINITE[verb.auxiliary][person], verb.participle
        if self.modal or self.tense == "future":
            return _FINITE[self.modal or "future"][person], whole
        finite = (verb.ich, verb.er, verb.infinitive)[person]
        return (verb.prefix + finite, "") if last else (finite, verb.prefix)

    def _middle(self, time: bool) -> list[str]:
        """Between the two ends of the verb: pronouns, time, receiver, object, nicht, place."""
        early, late = list[str](), list[str]()
        no = "nicht" if self.denied else ""
        for phrase, case in ((self.receiver, DATIVE), (self.object, ACCUSATIVE)):
            if phrase is None:
                continue
            text = phrase.german[case]
            if self.denied and case == ACCUSATIVE and phrase.absent[case]:
                text, no = phrase.absent[case], ""
            (early if phrase.pronoun else late).append(text)
        return [*early, self.time[1] if self.time and time else "", *late, no, self.place[1] if self.place else ""]


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
