"""A reference as it stands in a docstring, and its BibTeX.

    Paper: First Last, First Last (YEAR). Title. Venue. arXiv:ID. doi:ID.
    Paper, if CONDITION: …

Venue, arXiv and doi may be missing. A venue such as github.com/NAME/REPOSITORY makes it software. All authors are
named; a family name is the last word, with the small words before it (van der Maaten) or Le (Le Folgoc). Where a file
has options with papers of their own, a condition says when one was used: a Python expression of `self`, the module
that was built, or of `recipe`, the options of training.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from foveal.errors import FovealError

FORM = "First Last, First Last (YEAR). Title. Venue. arXiv:ID."

CONFERENCES = {
    "AAAI": "AAAI Conference on Artificial Intelligence",
    "ACL": "Annual Meeting of the Association for Computational Linguistics",
    "AISTATS": "International Conference on Artificial Intelligence and Statistics",
    "BMVC": "British Machine Vision Conference",
    "COLING": "International Conference on Computational Linguistics",
    "CVPR": "IEEE/CVF Conference on Computer Vision and Pattern Recognition",
    "ECCV": "European Conference on Computer Vision",
    "EMNLP": "Conference on Empirical Methods in Natural Language Processing",
    "ICASSP": "IEEE International Conference on Acoustics, Speech and Signal Processing",
    "ICCV": "IEEE/CVF International Conference on Computer Vision",
    "ICLR": "International Conference on Learning Representations",
    "ICML": "International Conference on Machine Learning",
    "ICPR": "International Conference on Pattern Recognition",
    "IJCAI": "International Joint Conference on Artificial Intelligence",
    "INTERSPEECH": "Interspeech",
    "MICCAI": "Medical Image Computing and Computer Assisted Intervention",
    "MIDL": "Medical Imaging with Deep Learning",
    "NAACL": "Conference of the North American Chapter of the Association for Computational Linguistics",
    "NeurIPS": "Advances in Neural Information Processing Systems",
    "NIPS": "Advances in Neural Information Processing Systems",
    "WACV": "IEEE/CVF Winter Conference on Applications of Computer Vision",
}
JOURNALS = {
    "IJCV": "International Journal of Computer Vision",
    "JMLR": "Journal of Machine Learning Research",
    "TACL": "Transactions of the Association for Computational Linguistics",
    "TMLR": "Transactions on Machine Learning Research",
    "TPAMI": "IEEE Transactions on Pattern Analysis and Machine Intelligence",
}
JOURNAL_WORDS = re.compile(
    r"\b(Journal|Transactions|Letters|Magazine|Review|Neural Computation|Neurocomputing|Nature|Science|Distill)\b"
)

REPOSITORY = re.compile(r"(github|gitlab)\.com/\S+$")

# what Unicode does not take apart
WITHOUT_ACCENT = {
    "ł": "l",
    "ø": "o",
    "ß": "ss",
    "æ": "ae",
    "œ": "oe",
    "đ": "d",
    "ı": "i",
}


@dataclass(frozen=True)
class Paper:
    authors: tuple[str, ...]
    year: int
    title: str
    venue: str = ""
    arxiv: str = ""
    doi: str = ""
    condition: str = field(default="", compare=False)  # when it was used; empty: always

    @classmethod
    def read(cls, line: str, condition: str = "") -> "Paper":
        """The reference that a docstring's `Paper:` line holds."""
        found = re.fullmatch(r"(?P<authors>.+?) \((?P<year>\d{4})\)\. (?P<rest>.+)", line.strip())
        if not found:
            raise FovealError(f"Paper: expected {FORM!r}, got {line.strip()!r}")
        authors = tuple(found["authors"].split(", "))
        if not all(authors) or re.search(r"\bet al\b| and ", found["authors"]):
            raise FovealError(f"Paper: expected every author by name, with commas between, got {found['authors']!r}")
        rest, doi = _take(found["rest"], r"doi:(\S+?)")
        rest, arxiv = _take(rest, r"arXiv:(\d{4}\.\d{4,5}|[a-z.-]+/\d{7})")
        if re.search(r"arxiv|\bdoi\b", rest, re.IGNORECASE):
            raise FovealError(f"Paper: expected 'arXiv:ID.' and 'doi:ID.' at the end, got {found['rest']!r}")
        title, venue = _title_and_venue(rest.removesuffix("."))
        return cls(authors, int(found["year"]), title, venue, arxiv, doi, condition)

    def used(self, names: Mapping[str, Any]) -> bool:
        """Whether the condition holds for these: `self` or `recipe`, and what else its file knows by name."""
        try:
            # The text comes from foveal's own files, as their code does.
            return not self.condition or bool(eval(self.condition, dict(names)))
        except (AttributeError, TypeError):  # of a task without this option, or out of a card that somebody else wrote
            return False

    @property
    def key(self) -> str:
        """vaswani2017attention: family name, year, first word of the title."""
        family, _ = parted(self.authors[0])
        first = re.search(r"\w+", _plain(self.title))
        return re.sub(r"\W", "", _plain(family)) + str(self.year) + (first[0] if first else "")

    def bibtex(self, key: str = "") -> str:
        """The BibTeX of this paper, in UTF-8; `key` replaces the key where two papers would share it."""
        kind, place = self._place()
        fields = {
            "title": "{" + _escaped(self.title) + "}",
            "author": " and ".join(", ".join(filter(None, parted(author))) for author in self.authors),
            **place,
            "year": str(self.year),
            "eprint": self.arxiv,
            "archivePrefix": "arXiv" if self.arxiv else "",
            "doi": self.doi,
        }
        lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
        return f"@{kind}{{{key or self.key},\n" + ",\n".join(lines) + "\n}"

    def __str__(self) -> str:
        ends = (f"{self.title}." if self.title[-1] not in "?!" else self.title, self.venue and f"{self.venue}.")
        marks = (self.arxiv and f"arXiv:{self.arxiv}.", self.doi and f"doi:{self.doi}.")
        return " ".join([f"{', '.join(self.authors)} ({self.year}).", *filter(None, (*ends, *marks))])

    def _place(self) -> tuple[str, dict[str, str]]:
        if not self.venue:
            return "misc", {}
        if REPOSITORY.match(self.venue):
            return "software", {"url": f"https://{self.venue}"}
        if self.venue in JOURNALS or JOURNAL_WORDS.search(self.venue):
            return "article", {"journal": _escaped(JOURNALS.get(self.venue, self.venue))}
        return "inproceedings", {"booktitle": _escaped(CONFERENCES.get(self.venue, self.venue))}


def labelled(line: str) -> tuple[str, str] | None:
    """(condition, reference) of a docstring's line that begins with `Paper:` or `Paper, if CONDITION:`."""
    found = re.fullmatch(r"Paper(?:, if (?P<condition>[^:]+))?:(?P<reference>.*)", line)
    return None if found is None else (found["condition"] or "", found["reference"].strip())


def parted(author: str) -> tuple[str, str]:
    """(family, given): "Laurens van der Maaten" → ("van der Maaten", "Laurens")."""
    words = author.split()
    start = len(words) - 1
    while start > 1 and (words[start - 1].islower() or words[start - 1] == "Le"):
        start -= 1
    return " ".join(words[start:]), " ".join(words[:start])


def _take(text: str, pattern: str) -> tuple[str, str]:
    """The text without the mark that ends it, and the mark."""
    found = re.search(rf"(?:^|\s){pattern}\.?$", text)
    return (text[: found.start()].strip(), found[1]) if found else (text, "")


def _title_and_venue(text: str) -> tuple[str, str]:
    """A title may itself end in a question mark; what follows it is then a venue only if it is a known one."""
    title, stop, venue = text.rpartition(". ")
    if stop:
        return title, venue
    asked = re.fullmatch(r"(.+[?!]) (.+)", text)
    if asked and (asked[2] in CONFERENCES or asked[2] in JOURNALS):
        return asked[1], asked[2]
    return text, ""


def _plain(text: str) -> str:
    """Lower case ASCII: what every BibTeX accepts in a key."""
    letters = "".join(WITHOUT_ACCENT.get(letter, letter) for letter in text.lower())
    return unicodedata.normalize("NFKD", letters).encode("ascii", "ignore").decode()


def _escaped(text: str) -> str:
    return re.sub(r"([&%#$_])", r"\\\1", text)
