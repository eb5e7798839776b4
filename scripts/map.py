"""Draw docs/rooms.svg from the real imports: the rooms on a diagonal, and an arrow from each to what it imports.

All arrows point right and down, since imports run one way: the order of the rooms is import-linter's, in
pyproject.toml. The edges are in the file as a comment, which a test compares with the code: `make map` draws it anew.
"""

import sys
import tomllib
from collections import Counter
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
FILE = ROOT / "docs/rooms.svg"
# single files that every room may use: no arrows, or the map would be full of them
FLOOR = ("options", "device", "atomic", "errors")
STEP_X, STEP_Y, WIDE, HIGH, LEFT, TOP = 84, 50, 76, 32, 24, 64
SIZES = ((30, 7.0, "30 or more"), (10, 5.0, "10 to 29"), (1, 3.2, "1 to 9"))  # files that import, radius of the dot
INK, LINE, BOX, TEXT = "#1f4e79", "#8aa4bd", "#eef3f8", "#1b2733"
Edges = dict[tuple[str, str], int]


def rooms() -> list[str]:
    """From the top down, as import-linter holds them; those that have a folder."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    names = [part.strip().removeprefix("foveal.") for layer in layers for part in layer.replace("|", ":").split(":")]
    return [name for name in names if name not in FLOOR and (ROOT / "src/foveal" / name).is_dir()]


def edges(known: list[str]) -> Edges:
    """(room, room that it imports) → how many of its files do."""
    graph = grimp.build_graph("foveal", cache_dir=None, exclude_type_checking_imports=True)
    found: Counter[tuple[str, str]] = Counter()
    for module in graph.modules:
        targets = {_room(one) for one in graph.find_modules_directly_imported_by(module)}
        found.update((_room(module), target) for target in targets)
    return {
        (one, other): count
        for (one, other), count in sorted(found.items())
        if one != other and {one, other} <= set(known)
    }


def _room(module: str) -> str:
    return [*module.split("."), ""][1]


def comment(found: Edges) -> str:
    return "<!-- edges: " + ", ".join(f"{one}>{other}" for one, other in sorted(found)) + " -->"


def svg(known: list[str], found: Edges) -> str:
    place = {name: (LEFT + STEP_X * number, TOP + STEP_Y * number) for number, name in enumerate(known)}
    wide, high = LEFT * 2 + STEP_X * len(known), TOP + STEP_Y * len(known) + 76
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="Helvetica, Arial, '
            'sans-serif">'
        ),
        comment(found),
        f'<rect width="{wide}" height="{high}" fill="#ffffff"/>',
        '<defs><marker id="tip" markerWidth="9" markerHeight="9" refX="7" refY="4" orient="auto">',
        f'<path d="M0,0 L8,4 L0,8 z" fill="{LINE}"/></marker></defs>',
        (
            f'<text x="{LEFT}" y="34" font-size="19" fill="{TEXT}" font-weight="bold">The rooms of foveal: imports run '
            "right and down, never back</text>"
        ),
    ]
    parts += [line for name in known for line in _lines(name, place, found)]
    parts += [
        _dot(place[one][1] + HIGH / 2, place[other][0] + WIDE / 2, count) for (one, other), count in found.items()
    ]
    for name, (x, y) in place.items():
        parts.append(
            f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="6" fill="{BOX}" stroke="{INK}" '
            'stroke-width="1.5"/>'
        )
        parts.append(
            f'<text x="{x + WIDE / 2}" y="{y + 21}" font-size="14" text-anchor="middle" fill="{TEXT}">{name}</text>'
        )
    parts += _floor(wide, high) + _legend(high)
    return "\n".join([*parts, "</svg>", ""])


def _lines(name: str, place: dict[str, tuple[int, int]], found: Edges) -> list[str]:
    """One line to the right of a room, as far as what it imports.

    One arrow down to it, from the first that imports it.
    """
    x, y = place[name]
    used = [place[other][0] + WIDE / 2 for one, other in found if one == name]
    users = [place[one][1] + HIGH / 2 for one, other in found if other == name]
    style = f'stroke="{LINE}" stroke-width="1.3" fill="none"'
    across = [f'<path d="M{x + WIDE},{y + HIGH / 2} H{max(used)}" {style}/>'] if used else []
    down = [f'<path d="M{x + WIDE / 2},{min(users)} V{y - 2}" {style} marker-end="url(#tip)"/>'] if users else []
    return across + down


def _dot(y: float, x: float, count: int) -> str:
    radius = next(radius for least, radius, _ in SIZES if count >= least)
    return f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{INK}"/>'


def _floor(wide: int, high: int) -> list[str]:
    text = f"{' · '.join(FLOOR)}: single files that every room may use"
    return [
        (
            f'<rect x="{LEFT}" y="{high - 62}" width="{wide - 2 * LEFT - 8}" height="{HIGH}" rx="6" fill="#f6f6f2" '
            'stroke="#9a9a8c"/>'
        ),
        f'<text x="{wide / 2}" y="{high - 41}" font-size="14" text-anchor="middle" fill="{TEXT}">{text}</text>',
    ]


def _legend(high: int) -> list[str]:
    """In the empty corner below the diagonal."""
    y = high - 190
    parts = [
        (
            f'<text x="{LEFT}" y="{y}" font-size="14" fill="{TEXT}">'
            "a dot: files of the room at its left import the room below it</text>"
        )
    ]
    for number, (_, radius, words) in enumerate(reversed(SIZES)):
        at = y + 26 + 24 * number
        parts.append(f'<circle cx="{LEFT + 10}" cy="{at}" r="{radius}" fill="{INK}"/>')
        parts.append(f'<text x="{LEFT + 26}" y="{at + 5}" font-size="14" fill="{TEXT}">{words} files</text>')
    return parts


def main() -> int:
    known = rooms()
    found = edges(known)
    up = {pair for pair in found if known.index(pair[0]) > known.index(pair[1])}
    FILE.write_text(svg(known, {pair: count for pair, count in found.items() if pair not in up}), encoding="utf-8")
    print(f"wrote {FILE.relative_to(ROOT)}: {len(known)} rooms, {len(found)} edges")
    for one, other in sorted(up):
        print(f"{one} imports {other}, which is above it", file=sys.stderr)
    return 1 if up else 0


if __name__ == "__main__":
    sys.exit(main())
