"""A table in the three forms that people paste: Markdown, CSV and LaTeX (booktabs);
and all tables of a result in one file of each form.

Every cell is text. Each form escapes what it must, so a class called `a|b_c` is one cell in all of them. A CSV is for
machines: a number that is undefined, a dash to people, is nothing there; numbers have no commas and no plus; an
interval, 1.5 (1.2 to 1.9), is three columns, and a spread, 1.5 ± 0.2, two. Several tables are one, with a column
`table` that names them.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foveal.atomic import write_atomic
from foveal.errors import expect

UNDEFINED = "–"
_NUMBER = r"[+\-−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?"
_INTERVAL = rf"(?P<value>{_NUMBER})(?: %)? \((?P<low>{_NUMBER})(?: %)? to (?P<high>{_NUMBER})(?: %)?\)"
# what a cell of a figure may be → the columns that its parts have in a CSV, behind the name of its own
FORMS = {
    re.compile(_INTERVAL): {"value": "", "low": " low", "high": " high"},
    re.compile(rf"(?P<value>{_NUMBER}) ± (?P<spread>{_NUMBER})"): {"value": "", "spread": " spread"},
    re.compile(rf"(?P<value>{_NUMBER})"): {"value": ""},
}
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
        return _csv([self])

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
    return "".join(f"# {' '.join(note.split())}\n" for note in notes) + _csv(tables)


def _csv(tables: Sequence[Table]) -> str:
    """The rows of all tables under one head: every column that one of them has."""
    several = len(tables) > 1
    head = ["table"] if several else []
    rows: list[dict[str, str]] = []
    for table in tables:
        made = [_cells(table, row) for row in table.rows]
        for name in _names(table):  # and behind it, what an interval or a spread in one of its cells brings
            parts = [one for cells in made for one in cells[name]]
            head += [one for one in dict.fromkeys([name, *parts]) if one not in head]
        title = {"table": table.title} if several else {}
        rows += [title | {one: part for parts in cells.values() for one, part in parts.items()} for cells in made]
    text = io.StringIO()
    writer = csv.DictWriter(text, head, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _names(table: Table) -> list[str]:
    """The columns by name: one that has none, or that of another, has its number."""
    head = list(table.head)
    return [name if name and name not in head[:place] else f"column {place + 1}" for place, name in enumerate(head)]


def _cells(table: Table, row: Sequence[str]) -> dict[str, dict[str, str]]:
    """Of each column of a table, its columns in a CSV and what stands in them."""
    named = enumerate(zip(_names(table), row, strict=True))
    return {
        name: _parted(name, cell) if place >= table.words else _as_it_is(name, cell) for place, (name, cell) in named
    }


def _as_it_is(name: str, cell: str) -> dict[str, str]:
    return {name: "" if cell == UNDEFINED else cell}


def _parted(name: str, cell: str) -> dict[str, str]:
    """The column and what stands in it, of each part of a figure; what is none as it is."""
    for form, parts in FORMS.items():
        if found := form.fullmatch(cell):
            plain = {part: found[part].replace(",", "").replace("−", "-").removeprefix("+") for part in parts}
            return {f"{name}{ending}": plain[part] for part, ending in parts.items()}
    return _as_it_is(name, cell)


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
