"""A table of words, in the three forms that people paste: Markdown, CSV and LaTeX (booktabs).

Every cell is text. Each form escapes what it must, so a class called `a|b_c` is one cell in all of them.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from foveal.errors import expect

LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "β": r"$\beta$",
    "…": r"\ldots{}",
    "≥": r"$\geq$",
    "→": r"$\rightarrow$",
    "\N{NO-BREAK SPACE}": "~",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}


@dataclass(frozen=True)
class Table:
    """Rows under a head. The first `words` columns are words and stand left; the others are figures and stand right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1

    def __post_init__(self) -> None:
        for row in self.rows:
            expect(len(row) == len(self.head), "a row of a table", f"{len(self.head)} cells", len(row))

    def markdown(self) -> str:
        rule = ["---" if place < self.words else "---:" for place in range(len(self.head))]
        lines = [self.head, rule, *self.rows]
        return "\n".join(f"| {' | '.join(in_markdown(cell) if line is not rule else cell for cell in line)} |" for line in lines) + "\n"

    def csv(self) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.head, *self.rows])
        return text.getvalue()

    def latex(self) -> str:
        """A tabular; it needs \\usepackage{booktabs}."""
        columns = "l" * self.words + "r" * (len(self.head) - self.words)
        body = [" & ".join(map(in_latex, row)) + r" \\" for row in [self.head, *self.rows]]
        lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", body[0], r"\midrule", *body[1:], r"\bottomrule", r"\end{tabular}"]
        return "\n".join(lines) + "\n"


def in_markdown(text: str) -> str:
    """Text as it is, on one line: nothing in it is read as a cell's end, as emphasis, as a link or as HTML."""
    flat = " ".join(text.split())
    for sign in "\\|*_`[]<>":
        flat = flat.replace(sign, f"\\{sign}")
    return flat


def in_latex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in " ".join(text.split(" ")).replace("\n", " "))


def plain_name(text: str) -> str:
    """A name for a file or a folder, of whatever text."""
    return "-".join("".join(sign if sign.isalnum() or sign == "." else " " for sign in text).split())
