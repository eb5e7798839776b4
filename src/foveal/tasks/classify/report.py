"""The evaluation report: scores as a page to look at, tables to paste, and data; report/report_files.py names them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.atomic import expect_folder
from foveal.report.report_files import write_report_files
from foveal.tasks.classify.report_html import page
from foveal.tasks.classify.report_tables import caption, figure_rows, tables
from foveal.tasks.classify.scores import Scores


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
    return write_report_files(
        folder,
        page=page(scores, title, facts, images),
        tables=tables(scores),
        figures=figure_rows(scores),
        content=scores.to_json(),
        title=title,
        caption=caption(scores),
        facts=facts,
    )
