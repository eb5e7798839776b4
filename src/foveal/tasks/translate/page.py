"""Attention maps of a translation as one HTML page that needs nothing beside it, and their average as an SVG picture.

Every layer and head is in the page as bytes, 255 for all of a row's attention; a script of its own draws the one that
is chosen. What comes from outside (sentences, subwords, names) goes through `escape`, or through JSON that cannot end
its own element.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

import numpy as np

from foveal.tasks.translate.attention import AttentionMaps, Maps

TITLES = {
    "cross": (
        "translation → source",
        (
            "Each row is a subword of the translation, and shows where the model attended in the source when it "
            "generated it."
        ),
    ),
    "encoder": ("source → source", "Each row is a subword of the source, and shows which subwords it attended to."),
    "decoder": (
        "translation → translation",
        "Each row is a subword of the translation, and shows which earlier subwords it attended to.",
    ),
}
CELL, LETTER = 26, 8.0  # of the picture, in pixels: a square, and about the width of a letter


@dataclass(frozen=True, eq=False)
class Translated:
    """A translation and its maps, with the subwords that label them."""

    model: str
    source: str
    translation: str
    score: float
    source_subwords: list[str]  # its end included
    subwords: list[str]  # of the translation, its end included
    begin: str  # the mark that stands before it
    attention: AttentionMaps

    def labels(self, kind: str) -> tuple[list[str], list[str]]:
        """Of rows and of columns."""
        source, target = self.source_subwords, self.subwords
        before = [self.begin, *target[:-1]]
        return {"cross": (target, source), "encoder": (source, source), "decoder": (target, before)}[kind]


def page(translated: Translated) -> str:
    style, script = (
        files("foveal.tasks.translate").joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js")
    )
    kinds = [kind for kind in TITLES if kind in translated.attention.maps]
    data = json.dumps([_kind(kind, translated) for kind in kinds], ensure_ascii=False).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" '
        'content="light dark">\n'
        f"<title>{escape(translated.translation)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<header>\n<p class="soft">{escape(translated.source)}</p>\n<h1>{escape(translated.translation)}</h1>\n'
        f'<p class="soft">{escape(translated.model)} · score {translated.score:.3f} · attention shows where the model '
        "looked, not why</p>\n</header>\n"
        '<nav id="choice"></nav>\n<main>\n<figure id="large">'
        f"{picture(translated.attention.average, *translated.labels('cross'))}</figure>\n"
        '<section id="all"></section>\n</main>\n'
        f'<script type="application/json" id="data">{data}</script>\n<script>\n{script}</script>\n</body>\n</html>\n'
    )


def _kind(kind: str, translated: Translated) -> dict[str, object]:
    maps, (rows, columns) = translated.attention.maps[kind], translated.labels(kind)
    title, note = TITLES[kind]
    codes = np.rint(255 * maps.clip(0, 1)).astype(np.uint8).tobytes()
    shape = {"layers": maps.shape[0], "heads": maps.shape[1]}
    return {
        "title": title,
        "note": note,
        "rows": rows,
        "columns": columns,
        **shape,
        "maps": base64.b64encode(codes).decode(),
    }


def picture(values: Maps, rows: Sequence[str], columns: Sequence[str]) -> str:
    """A map (N, M) as SVG: the darkest square is its largest number."""
    left, top = (20 + LETTER * max(map(len, labels)) for labels in (rows, columns))
    width, height = left + CELL * len(columns) + 12, top + CELL * len(rows) + 12
    most = float(values.max()) or 1.0
    squares = "".join(
        f'<rect x="{left + CELL * j:.0f}" y="{top + CELL * i:.0f}" width="{CELL - 1}" height="{CELL - 1}" rx="3" '
        'fill="#2c7995" '
        f'fill-opacity="{max(value / most, 0.03):.3f}"><title>{escape(rows[i])} → {escape(columns[j])}: '
        f"{value:.1%}</title></rect>\n"
        for (i, j), value in np.ndenumerate(values)
    )
    names = "".join(
        f'<text x="{left - 8:.0f}" y="{top + CELL * i + CELL / 2 + 4:.0f}" text-anchor="end">{escape(name)}</text>\n'
        for i, name in enumerate(rows)
    )
    names += "".join(
        f'<text transform="translate({left + CELL * j + CELL / 2 + 4:.0f} {top - 8:.0f}) '
        f'rotate(-90)">{escape(name)}</text>\n'
        for j, name in enumerate(columns)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} '
        f'{height:.0f}" '
        'font-family="system-ui, sans-serif" font-size="13" fill="#202434"><rect width="100%" height="100%" '
        'fill="#ffffff"/>\n'
        f"{squares}{names}</svg>\n"
    )
