"""A result as one HTML page that needs nothing beside it: what every such page has.

Style, curves and images are inside, and there is no script. Whatever comes from outside (names of classes and files,
facts, the title) goes through `escape`.
"""

import base64
import io
import math
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from foveal.errors import expect
from foveal.report.figure import Facts, Figure, flat, percent

SHOT = 224  # the longest side of an image, in pixels


def whole_page(title: str, sections: Iterable[str]) -> str:
    style = files("foveal.report").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n"
        f"</head>\n<body>\n{''.join(sections)}</body>\n</html>\n"
    )


def head(title: str, about: str, small: Iterable[str], tiles: Iterable[str]) -> str:
    """The title, what was evaluated, some lines of how, and the figures that matter."""
    lines = "<br>".join(escape(line) for line in small)
    return (
        f"<header>\n<h1>{escape(title)}</h1>\n<p>{escape(about)}</p>\n"
        f'<p class="soft">{lines}</p>\n</header>\n'
        f'<ul class="tiles">\n{"".join(tiles)}</ul>\n'
    )


def tile(name: str, figure: Figure, note: str = "") -> str:
    """A share on a ruler from 0 to 1."""
    unit = "%" if math.isfinite(figure.value) else ""
    return plain_tile(f"{name}{note}", percent(figure.value), unit, _range(figure), between(figure))


def plain_tile(name: str, value: str, unit: str, ruler: str, below: str) -> str:
    sign = f"<i>{escape(unit)}</i>" if unit else ""
    return (
        f'<li><span class="name">{escape(name)}</span><span class="value">{escape(value)}{sign}</span>'
        f"{ruler}<small>{escape(below) or '&nbsp;'}</small></li>\n"
    )


def _range(figure: Figure) -> str:
    """A ruler from 0 to 1 with the interval and the value on it."""
    if not math.isfinite(figure.value):
        return '<span class="range"></span>'
    band = ""
    if figure.has_interval:
        band = f'<b style="left:{100 * figure.low:.2f}%;width:{100 * (figure.high - figure.low):.2f}%"></b>'
    return f'<span class="range">{band}<u style="left:{100 * figure.value:.2f}%"></u></span>'


def between(figure: Figure) -> str:
    return f"{percent(figure.low, 1)} – {percent(figure.high, 1)}" if figure.has_interval else ""


def share_cell(figure: Figure) -> str:
    """A share in a table, as long as it is large."""
    to = 100 * figure.value if math.isfinite(figure.value) else 0.0
    return f'<td class="share" style="--to:{to:.1f}%">{percent(figure.value)}<small>{between(figure)}</small></td>'


def picture(pixels: NDArray[np.uint8], name: str, side: int = SHOT) -> str:
    """An image (H, W, 3), shrunk to `side` and part of the page."""
    fits = pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.dtype == np.uint8 and pixels.size > 0
    expect(fits, f"the image of {name}", "(H, W, 3) uint8", f"{pixels.shape} {pixels.dtype}")
    image, content = Image.fromarray(pixels), io.BytesIO()
    image.thumbnail((side, side))
    image.save(content, "JPEG", quality=82)
    coded = base64.b64encode(content.getvalue()).decode()
    return (
        f'<img src="data:image/jpeg;base64,{coded}" width="{image.width}" height="{image.height}" '
        f'alt="{escape(name)}" loading="lazy">'
    )


def blank(reason: str) -> str:
    """What stands in the place of an image that is gone or broken: the report is not."""
    return f'<div class="blank">{escape(reason)}</div>'


def facts_section(facts: Facts) -> str:
    """Where the figures come from."""
    if not facts:
        return ""
    loose = {key: value for key, value in facts.items() if not isinstance(value, Mapping)}
    groups = {key: value for key, value in facts.items() if isinstance(value, Mapping) and value}
    lists = _list(loose) if loose else ""
    lists += "".join(f"<h3>{escape(str(key))}</h3>\n{_list(value)}" for key, value in groups.items())
    return f"<section>\n<h2>Where these figures come from</h2>\n{lists}</section>\n"


def _list(facts: Facts) -> str:
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>\n" for name, value in flat(facts))
    return f"<dl>\n{lines}</dl>\n"
