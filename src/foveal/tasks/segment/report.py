"""The evaluation report of a segmenter: a page, tables and data (report/report_files.py names them), and
confusion.csv: pixels, one row per true class, one column per predicted class.
"""

from pathlib import Path

from foveal.atomic import expect_folder, write_atomic
from foveal.report.confusion import whole_table
from foveal.report.figure import Facts
from foveal.report.report_files import write_report_files
from foveal.tasks.segment.report_html import Images, page
from foveal.tasks.segment.report_tables import caption, figure_rows, tables
from foveal.tasks.segment.scores import Scores

CONFUSION = "confusion.csv"


def write_report(scores: Scores, folder: Path, *, title: str, facts: Facts, images: Images | None = None) -> list[Path]:
    """Write all files and return where they are, the page first.

    images(index) gives the image at that place among those evaluated, its label map and the predicted one; where it
    raises a FovealError, the page has that sentence in its place.
    """
    expect_folder(folder)
    files = write_report_files(
        folder,
        page=page(scores, title, facts, images),
        tables=tables(scores),
        figures=figure_rows(scores),
        content=scores.to_json(),
        title=title,
        caption=caption(scores),
        facts=facts,
    )
    write_atomic(folder / CONFUSION, whole_table(scores.names, scores.confusion).csv().encode())
    return [*files, folder / CONFUSION]
