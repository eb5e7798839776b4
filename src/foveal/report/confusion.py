"""A confusion matrix, a row for what is there and a column for what it was taken for: as a table, and for a page."""

from collections.abc import Callable, Sequence
from html import escape

from foveal.report.table import Table

WIDEST = 30  # classes of a confusion matrix that still fits on a page
PAIRS = 20  # beyond that: the most frequent confusions
DENSE = 6  # from as many classes on, it is set tight
DEEP = 0.6  # share of a row from which on a cell is dark

Matrix = Sequence[Sequence[int]]


def confusion_table(names: Sequence[str], matrix: Matrix, what: str = "images") -> Table:
    """Of very many classes, the most frequent confusions."""
    if len(names) > WIDEST:
        return Table(["true", "predicted", what], [[names[i], names[j], str(n)] for n, i, j in pairs(matrix)], words=2)
    return whole_table(names, matrix)


def whole_table(names: Sequence[str], matrix: Matrix) -> Table:
    rows = [[name, *map(str, row)] for name, row in zip(names, matrix, strict=True)]
    return Table(["true ↓ predicted →", *names], rows)


def pairs(matrix: Matrix) -> list[tuple[int, int, int]]:
    """(count, true, predicted): the most frequent confusions."""
    cells = [(n, i, j) for i, row in enumerate(matrix) for j, n in enumerate(row) if i != j and n > 0]
    return sorted(cells, key=lambda cell: (-cell[0], cell[1], cell[2]))[:PAIRS]


def counted_first(count: int, share: float) -> str:
    return f"{count:,}<small>{100 * share:.0f} %</small>"


def confusion_section(
    names: Sequence[str],
    matrix: Matrix,
    what: str = "images",
    written: Callable[[int, float], str] = counted_first,
    more: str = "",
) -> str:
    """As a section of a page. what: is counted. written: a cell, of its count and its share of the row. more: a
    sentence.
    """
    if len(names) > WIDEST:
        cells = "".join(
            f'<tr><td class="word">{escape(names[i])}</td><td class="word">{escape(names[j])}</td><td>{n:,}</td></tr>\n'
            for n, i, j in pairs(matrix)
        )
        head = f"<tr><th>true</th><th>predicted</th><th>{escape(what)}</th></tr>"
        body = f"<table><thead>{head}</thead>\n<tbody>\n{cells}</tbody></table>"
    else:
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        rows = "".join(_row(names[place], place, row, written) for place, row in enumerate(matrix))
        kind = "matrix dense" if len(names) >= DENSE else "matrix"
        head = f"<tr><th>true ↓ predicted →</th>{head}</tr>"
        body = f'<table class="{kind}"><thead>{head}</thead>\n<tbody>\n{rows}</tbody></table>'
    return (
        '<section>\n<h2>Confusion</h2>\n<p class="soft">One row per true class, one column per predicted class; the '
        "shade is the share "
        f'of the row.{more}</p>\n<div class="wide snug">{body}</div>\n</section>\n'
    )


def _row(name: str, place: int, row: Sequence[int], written: Callable[[int, float], str]) -> str:
    total = sum(row)
    cells = ""
    for column, count in enumerate(row):
        share = count / total if total else 0.0
        kind = ("right" if column == place else "wrong") if count else "none"
        shade = f"{kind} deep" if share >= DEEP else kind
        cells += f'<td class="{shade}" style="--much:{0.08 + 0.92 * share:.2f}">{written(count, share)}</td>'
    return f"<tr><th>{escape(name)}</th>{cells}</tr>\n"
