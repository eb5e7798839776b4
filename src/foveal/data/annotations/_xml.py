"""XML that others wrote: elements, attributes and text. No entity may be declared, so none is expanded."""

from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from foveal.data.annotations._files import LONGEST
from foveal.data.class_names import text_of
from foveal.errors import FovealError, expect

DEEPEST = 64  # elements inside each other


def xml_of(path: Path) -> Element:
    """The root of a file of XML."""
    text = text_of(path, LONGEST)
    builder, parser, depth = TreeBuilder(), expat.ParserCreate("utf-8"), [0]

    def start(name: str, attributes: dict[str, str]) -> None:
        depth[0] += 1
        expect(depth[0] <= DEEPEST, str(path), f"at most {DEEPEST} elements inside each other", "more")
        builder.start(name, attributes)

    def end(name: str) -> None:
        depth[0] -= 1
        builder.end(name)

    def declared(*_: object) -> None:
        raise FovealError(f"{path}: expected XML without a DOCTYPE, got one, which may declare entities; remove it")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = declared
    try:
        parser.Parse(text.encode("utf-8"), True)
    except expat.ExpatError as error:
        raise FovealError(
            f"{path}, line {error.lineno}: expected XML, got something else ({expat.ErrorString(error.code)}); "
            "export it again"
        ) from None
    return builder.close()


def child_text(element: Element, name: str) -> str:
    """The text of a child, without spaces around it; "" where there is none."""
    return (element.findtext(name) or "").strip()


def integer_of(text: str | None) -> int | None:
    """A number of pixels that is written as text; None where it is none."""
    word = (text or "").strip()
    return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else None
