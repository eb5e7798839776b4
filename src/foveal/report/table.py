"""A table in the three forms that people paste: Markdown, CSV and LaTeX (booktabs);
and all tables of a result in one file of each form.

Every cell is text. Each form escapes what it must, so a class called `a|b_c` is one cell in all of them. A number that
is undefined is a dash to people, and nothing in a CSV.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foveal.atomic import write_atomic
from foveal.errors import expect

UNDEFINED = "–"
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
    title: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            expect(len(row) == len(self.head), "a row of a table", f"{len(self.head)} cells", len(row))

    def markdown(self) -> str:
        return "\n".join([*self.markdown_head(), *map(markdown_row, self.rows)]) + "\n"

    def markdown_head(self) -> list[str]:
        """The two lines above the rows."""
        rule = ["---" if place < self.words else "---:" for place in range(len(self.head))]
        return [markdown_row(self.head), f"| {' | '.join(rule)} |"]

    def csv(self) -> str:
        text = io.StringIO()
        rows = [["" if cell == UNDEFINED else cell for cell in row] for row in self.rows]
        csv.writer(text, lineterminator="\n").writerows([self.head, *rows])
        return text.getvalue()

    def latex(self) -> str:
        """A tabular; it needs \\usepackage{booktabs}."""
        columns = "l" * self.words + "r" * (len(self.head) - self.words)
        body = [" & ".join(map(in_latex, row)) + r" \\" for row in [self.head, *self.rows]]
        lines = [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            body[0],
            r"\midrule",
            *body[1:],
            r"\bottomrule",
            r"\end{tabular}",
        ]
        return "\n".join(lines) + "\n"


def markdown_row(cells: Sequence[str]) -> str:
    """One row, for those that are printed as they come."""
    return f"| {' | '.join(map(in_markdown, cells))} |"


def write_tables(
    folder: Path,
    stem: str,
    tables: Sequence[Table],
    title: str,
    caption: str,
    origin: Mapping[str, Any],
    more: str = "",
) -> list[Path]:
    """STEM.md, .csv and .tex with all tables, each with what the figures are (caption: split and seeds,
    too) and where they come from.

    more: Markdown that stands at the end of the .md file only.
    """
    facts = {key: " ".join(str(value).split()) for key, value in origin.items()}
    contents = {
        ".md": _markdown_page(tables, title, caption, facts) + (f"\n{more}" if more else ""),
        ".csv": _csv_page(tables, title, caption, facts),
        ".tex": _latex_page(tables, title, caption, facts),
    }
    for suffix, text in contents.items():
        write_atomic(folder / f"{stem}{suffix}", text.encode("utf-8", "backslashreplace"))
    return [folder / f"{stem}{suffix}" for suffix in contents]


def _markdown_page(tables: Sequence[Table], title: str, caption: str, facts: Mapping[str, str]) -> str:
    parts = [f"# {in_markdown(title)}\n", f"{in_markdown(caption)}\n"]
    for table in tables:
        parts += [f"## {in_markdown(table.title)}\n"] if table.title else []
        parts.append(table.markdown())
    origin = Table(["what", "value"], list(facts.items()), words=2)
    return "\n".join([*parts, "## Origin\n", origin.markdown()] if facts else parts)


def _csv_page(tables: Sequence[Table], title: str, caption: str, facts: Mapping[str, str]) -> str:
    """What is no row begins with #, which readers of CSV can be asked to skip."""
    notes = [title, caption, *(f"{key}: {value}" for key, value in facts.items())]
    parts = ["".join(f"# {' '.join(note.split())}\n" for note in notes)]
    parts += [(f"# {table.title}\n" if table.title else "") + table.csv() for table in tables]
    return "\n".join(parts) if len(tables) > 1 else "".join(parts)


def _latex_page(tables: Sequence[Table], title: str, caption: str, facts: Mapping[str, str]) -> str:
    lines = [r"% needs \usepackage{booktabs}", *(f"% {key}: {value}" for key, value in facts.items())]
    for number, table in enumerate(tables):
        text = f"{title}. {caption}" if number == 0 else f"{title}."
        text = f"{text} {table.title}." if table.title else text
        lines += [
            "",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{in_latex(text)}}}",
            table.latex().rstrip(),
            r"\end{table}",
        ]
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
