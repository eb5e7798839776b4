"""The report of an evaluation: a page to look at, tables to paste, and data.

report.html               one page, nothing beside it
report.md, .csv, .tex     its tables
figures.md, .csv, .tex    every figure with its interval
evaluation.json           everything
"""

from collections.abc import Sequence
from pathlib import Path

from foveal.atomic import write_atomic
from foveal.report.figure import Facts, flat
from foveal.report.table import Table, write_tables

HTML, JSON = "report.html", "evaluation.json"


def write_report_files(
    folder: Path,
    *,
    page: str,
    tables: Sequence[Table],
    figures: Table,
    content: str,
    title: str,
    caption: str,
    facts: Facts,
) -> list[Path]:
    """Write all files and return where they are, the page first. content: of evaluation.json."""
    origin = dict(flat(facts))
    write_atomic(folder / HTML, page.encode("utf-8", "backslashreplace"))
    files = [folder / HTML]
    files += write_tables(folder, "report", tables, title, caption, origin)
    files += write_tables(folder, "figures", [figures], title, caption, origin)
    write_atomic(folder / JSON, content.encode("utf-8", "backslashreplace"))
    return [*files, folder / JSON]
