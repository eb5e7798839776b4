"""The evaluation report: one verdict as a page to look at, tables to paste, and data to make them again from.

report.html   one page, nothing beside it       report.md, report.tex   tables      figures.csv   every figure with its interval
verdict.json  everything: Verdict.from_json(text) is the verdict again
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.atomic import expect_folder, write_atomic
from foveal.tasks.classify.evaluation import Evaluation
from foveal.tasks.classify.report_html import page
from foveal.tasks.classify.report_tables import figures_csv, latex, markdown


def write_report(
    verdict: Evaluation,
    folder: Path,
    *,
    title: str,
    facts: Mapping[str, Any],
    images: Callable[[int], NDArray[np.uint8]] | None = None,
) -> tuple[Path, ...]:
    """Write the five files and say where they are; nothing is written before all of them are made.

    facts: what the figures come from (origin, model, data, run), words, numbers, lists or dicts of them. images(index) gives the image
    at that place among those judged, (H, W, 3) uint8; one that raises a FovealError is shown as that sentence.
    """
    expect_folder(folder)
    contents = {
        "report.html": page(verdict, title, facts, images),
        "report.md": markdown(verdict, title, facts),
        "report.tex": latex(verdict, title, facts),
        "figures.csv": figures_csv(verdict),
        "verdict.json": verdict.to_json(),
    }
    for name, text in contents.items():
        write_atomic(folder / name, text.encode())
    return tuple(folder / name for name in contents)
