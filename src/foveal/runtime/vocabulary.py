"""Sentences as numbers and back: subwords, learned from the sentences themselves.

Text is taken as UTF-8 bytes, and every byte is a subword; the subwords learned beyond those are runs of bytes that
come often. So nothing is ever unknown: a name, a language or an emoji that no training sentence had is spelled out
byte by byte, and comes back exactly. Two ways to learn:

    bpe       join the commonest pair of neighbours, again and again
    unigram   begin with many subwords, and drop those that the likelihood of the text misses least

Papers: Rico Sennrich, Barry Haddow, Alexandra Birch (2016). Neural machine translation of rare words with subword
units. arXiv:1508.07909.
        Taku Kudo (2018). Subword regularization. arXiv:1804.10959.
Departs from the papers: bytes instead of characters; unigram's scores are rounded, so that the same sentences give the
same vocabulary.

Needs `tokenizers`, and no torch: a runtime may read what a model file carries.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from foveal.errors import FovealError, expect, expect_integer, short_repr, unknown

MARKS = ("<pad>", "<s>", "</s>", "<unk>")
PAD, BEGIN, END, UNKNOWN = range(4)
KINDS = ("bpe", "unigram")
FORMAT = "foveal vocabulary 1"
LEAST = len(MARKS) + 256  # the marks and the bytes
JOINED = "·"  # before a subword that continues a word
_STEPS = 2 * 256 * 1e-4  # tokenizers gives the bytes that it keeps for nothing scores 1e-4 apart, from the lowest on
# A space inside, which no subword has: in the bytes' alphabet it is Ġ. So no sentence can spell a mark.
_RESERVED = [f" {mark}" for mark in MARKS]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    kind: str
    lowercase: bool
    tokenizer: Tokenizer

    def __len__(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    def normalise(self, sentence: str) -> str:
        """What `decode(encode(…))` gives back: composed characters, single spaces,
        small letters if those were asked for.
        """
        text = unicodedata.normalize("NFC", " ".join(sentence.split()))
        return unicodedata.normalize("NFC", text.lower()) if self.lowercase else text

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Ids of tokens, without marks."""
        texts = [self.normalise(sentence) for sentence in _texts(sentences)]
        try:
            return [one.ids for one in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
        except (TypeError, UnicodeEncodeError):  # half of a pair of surrogates, which is no character
            raise FovealError(
                "a sentence: expected text that UTF-8 can hold, got half of a surrogate pair; clean the text"
            ) from None

    def decode(self, numbers: Sequence[Sequence[int]]) -> list[str]:
        """Sentences; what comes after </s>, and the other marks, are left out. Bytes that are no UTF-8 become �."""
        texts = self.tokenizer.decode_batch(
            [_without_marks(row, len(self)) for row in numbers], skip_special_tokens=False
        )
        return [text.removeprefix(" ") for text in texts]

    def subwords(self, numbers: Sequence[int]) -> list[str]:
        """Each id as a person reads it: a subword that continues a word begins with ·,
        a byte that is no character alone is ‹e2›.
        """
        return [self._readable[_checked(number, len(self))] for number in numbers]

    def text(self) -> str:
        """All of it as JSON, to be kept in the model's own file."""
        kept = {
            "format": FORMAT,
            "kind": self.kind,
            "lowercase": self.lowercase,
            "model": json.loads(self.tokenizer.to_str())["model"],
        }
        return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> "Vocabulary":
        try:
            kept = json.loads(text)
            right = kept["format"] == FORMAT and kept["kind"] in KINDS and isinstance(kept["lowercase"], bool)
            if not right:
                raise ValueError(kept["format"])
            vocabulary = cls(kept["kind"], kept["lowercase"], _tokenizer(kept["model"]))
        except Exception as error:  # noqa: BLE001 — tokenizers raises a bare Exception for JSON that is no model
            reason = " ".join(str(error).split())[:100]
            raise FovealError(
                f"a vocabulary: expected the text that Vocabulary.text() gives, got another ({reason})"
            ) from None
        ids = [vocabulary.tokenizer.token_to_id(mark) for mark in _RESERVED]
        expect(ids == list(range(len(MARKS))), "a vocabulary", f"{', '.join(MARKS)} as its first tokens", ids)
        return vocabulary

    def fingerprint(self) -> str:
        return hashlib.sha256(self.text().encode()).hexdigest()[:16]

    @cached_property
    def _readable(self) -> list[str]:
        of_character = _bytes_of_characters()
        read = list(MARKS)
        for number in range(len(MARKS), len(self)):
            content = bytes(of_character[character] for character in self.tokenizer.id_to_token(number) or "")
            try:
                text = content.decode()
            except UnicodeDecodeError:
                text = "".join(chr(byte) if byte < 128 else f"‹{byte:02x}›" for byte in content)
            read.append((text[1:] or "␣") if text.startswith(" ") else JOINED + text)
        return read


def learn(sentences: Iterable[str], vocab_size: int = 10000, kind: str = "bpe", lowercase: bool = False) -> Vocabulary:
    """A vocabulary of at most `vocab_size` subwords, marks and bytes among them; fewer where the sentences are few.

    The same every time.
    """
    if kind not in KINDS:
        raise unknown("kind of vocabulary", str(kind), KINDS)
    expect_integer(vocab_size, "vocab_size", LEAST, f"at least {LEAST}: the marks and the 256 bytes")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = _around(models.BPE() if kind == "bpe" else models.Unigram())
    vocabulary = Vocabulary(kind, bool(lowercase), tokenizer)
    # one at a time: there may be millions
    texts = (text for text in map(vocabulary.normalise, _texts(sentences)) if text)
    first = next(texts, "")
    expect(bool(first), "the sentences of a vocabulary", "at least one that is not empty", "none")
    shared: dict[str, Any] = {
        "vocab_size": vocab_size,
        "special_tokens": _RESERVED,
        "initial_alphabet": alphabet,
        "show_progress": False,
    }
    trainer = (
        trainers.BpeTrainer(min_frequency=2, **shared)
        if kind == "bpe"
        else trainers.UnigramTrainer(unk_token=_RESERVED[3], **shared)
    )
    try:
        tokenizer.train_from_iterator(chain([first], texts), trainer)
    except UnicodeEncodeError:
        raise FovealError(
            "a sentence: expected text that UTF-8 can hold, got half of a surrogate pair; clean the text"
        ) from None
    model = json.loads(tokenizer.to_str())["model"]
    if kind == "unigram":
        model["vocab"] = _settled(model["vocab"])
    # Made anew from the model alone: what was trained would look for the marks in every sentence.
    return Vocabulary(kind, bool(lowercase), _tokenizer(model))


def learn_both(
    source: Iterable[str],
    target: Iterable[str],
    vocab_size: int = 10000,
    kind: str = "bpe",
    lowercase: bool = False,
    joint: bool = True,
) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of two languages.

    Joint: one of `vocab_size` subwords for both, given twice; else each has its own.
    """
    if not joint:
        return learn(source, vocab_size, kind, lowercase), learn(target, vocab_size, kind, lowercase)
    shared = learn(chain(source, target), vocab_size, kind, lowercase)
    return shared, shared


def text_of(source: Vocabulary, target: Vocabulary) -> str:
    """Both as one text, for the model's file; one that both share is there once."""
    return json.dumps(
        [json.loads(one.text()) for one in ([source] if source is target else [source, target])], ensure_ascii=False
    )


def both_from(text: str) -> tuple[Vocabulary, Vocabulary]:
    """The source's and the target's, out of the model's file."""
    try:
        kept = json.loads(text)
        found = [Vocabulary.from_text(json.dumps(one)) for one in kept] if isinstance(kept, list) else []
    except ValueError:
        found = []
    expect(len(found) in (1, 2), "a model's vocabulary", "one of foveal's, or two", short_repr(text))
    return found[0], found[-1]


def _around(model: models.Model) -> Tokenizer:
    tokenizer = Tokenizer(model)
    # A space goes before the sentence, so that a word is the same subword at the beginning of a sentence and inside.
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _tokenizer(model: dict[str, object]) -> Tokenizer:
    complete = json.loads(_around(models.BPE()).to_str()) | {"model": model}
    return Tokenizer.from_str(json.dumps(complete))


def _settled(subwords: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Unigram's subwords without what differs from one training to the next: the last digits of scores, and which of
    the bytes that it had to keep for nothing has which of the lowest ones. All of those get one score, below all
    others.
    """
    scores = dict(subwords[len(MARKS) :])
    least = min(scores.values())
    kept_for_nothing = {subword for subword, score in scores.items() if len(subword) == 1 and score < least + _STEPS}
    settled = {
        subword: round(least - 1 if subword in kept_for_nothing else score, 3) for subword, score in scores.items()
    }
    marks = [(mark, 0.0) for mark in _RESERVED]
    return marks + sorted(settled.items(), key=lambda one: (-one[1], one[0]))


def _without_marks(numbers: Sequence[int], size: int) -> list[int]:
    row = [_checked(number, size) for number in numbers]
    if END in row:
        row = row[: row.index(END)]
    return [number for number in row if number >= len(MARKS)]


def _checked(number: int, size: int) -> int:
    if not 0 <= number < size:
        raise FovealError(f"a token: expected an id from 0 to {size - 1}, got {short_repr(int(number))}")
    return int(number)


def _texts(sentences: Iterable[str]) -> Iterable[str]:
    expect(
        not isinstance(sentences, str), "sentences", "a list of sentences", "one sentence alone", "put it into a list"
    )
    return sentences


def _bytes_of_characters() -> dict[str, int]:
    """The alphabet in which `tokenizers` writes bytes: printable Latin-1 as itself, the others from Ā on, in order."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}
