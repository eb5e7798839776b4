"""The evaluation report: scores as a page to look at, tables to paste, and data.

report.html               one page, nothing beside it
report.md, .csv, .tex     its tables
figures.md, .csv, .tex    every figure with its interval
evaluation.json           everything
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.atomic import expect_folder, write_atomic
from foveal.report.table import write_tables
from foveal.tasks.classify.report_html import page
from foveal.tasks.classify.report_tables import caption, figure_rows, flat, tables
from foveal.tasks.classify.scores import Scores

JSON = "evaluation.json"


def write_report(
    scores: Scores,
    folder: Path,
    *,
    title: str,
    facts: Mapping[str, Any],
    images: Callable[[int], NDArray[np.uint8]] | None = None,
) -> list[Path]:
    """Write all files and return where they are, the page first.

    facts: where the figures come from (origin, model, data, run), words, numbers, lists or dicts of them.
    images(index) gives the image at that place among those evaluated, (H, W, 3) uint8; where it raises a FovealError,
    the page has that sentence in its place.
    """
    expect_folder(folder)
    html, origin, words = page(scores, title, facts, images), dict(flat(facts)), caption(scores)
    write_atomic(folder / "report.html", html.encode("utf-8", "backslashreplace"))
    files = [folder / "report.html"]
    files += write_tables(folder, "report", tables(scores), title, words, origin)
    files += write_tables(folder, "figures", [figure_rows(scores)], title, words, origin)
    write_atomic(folder / JSON, scores.to_json().encode("utf-8", "backslashreplace"))
    return [*files, folder / JSON]
