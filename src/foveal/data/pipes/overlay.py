"""What the recorder writes over the picture: distance, day and time, pipe and manhole numbers. Not every recorder does."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

COLOURS = ((255, 255, 255), (255, 255, 255), (240, 240, 240), (255, 255, 90), (120, 255, 120), (20, 20, 20))
CORNERS = ((0, 0), (1, 0), (0, 1), (1, 1))


@dataclass(frozen=True)
class Text:
    """Lines of text for each corner (right?, bottom?), and their look."""

    lines: dict[tuple[int, int], list[str]]
    colour: tuple[int, int, int]
    height: float  # of a line, as a share of the picture
    outline: bool
    plate: bool

    def write(self, picture: Image.Image) -> tuple[Image.Image, NDArray[np.bool_]]:
        """The picture with the text, and the pixels that the text covers."""
        size = picture.width
        ink, covered = Image.new("L", picture.size), np.zeros((size, size), bool)
        if not self.lines:
            return picture, covered
        pen = ImageDraw.Draw(ink)
        step = max(self.height * size, 5)
        face = font(max(int(step * 0.85), 5))
        picture = picture.copy()
        for (right, bottom), lines in self.lines.items():
            y = size - step * (len(lines) + 0.5) if bottom else step * 0.5
            for words in lines:
                x = size - pen.textlength(words, face) - step * 0.6 if right else step * 0.6
                if self.plate:
                    plate = (int(x - 1), int(y), int(x + pen.textlength(words, face) + 1), int(y + step))
                    picture.paste((30, 30, 40) if sum(self.colour) > 300 else (200, 200, 200), plate)
                    covered[max(plate[1], 0) : plate[3], max(plate[0], 0) : plate[2]] = True
                pen.text((x, y), words, fill=255, font=face)
                y += step
        covered |= np.asarray(ink) > 90
        if self.outline:
            picture.paste((0, 0, 0) if sum(self.colour) > 300 else (235, 235, 235), (1, 1), ink)
        picture.paste(self.colour, (0, 0), ink)
        return picture, covered


@lru_cache(maxsize=32)
def font(height: int) -> Any:
    """Pillow's own font: nothing to install, nothing to ship."""
    return ImageFont.load_default(height)


def draw_text(random: np.random.Generator) -> Text:
    """What some recorder writes; one in six writes nothing."""
    if random.random() < 0.16:
        return Text({}, (255, 255, 255), 0.05, False, False)
    day = f"{random.integers(2008, 2026)}{random.choice(['-', '/', '.'])}{random.integers(1, 13):02d}-{random.integers(1, 29):02d}"
    clock = f"{random.integers(6, 20):02d}:{random.integers(60):02d}:{random.integers(60):02d}"
    metres = f"{random.uniform(0, 99):0{random.choice([4, 5])}.1f}{random.choice(['m', ' m', 'M'])}"
    pipe = f"{random.choice(['R ', 'PIPE ', '# ', 'ID ', ''])}{random.choice(['HN', 'A', 'S', ''])}{random.integers(10, 99999)}"
    holes = [f"# {random.integers(1000, 99999)}" for _ in range(random.integers(0, 3))]
    size = f"D {random.integers(4, 24) * 50} {random.choice(['HP', 'PE', 'VC', 'PVC', ''])}"
    blocks = [
        [metres, pipe, *holes],
        [day, clock],
        [size],
        [f"{random.choice(['upstream', 'downstream', 'DS', 'US'])}"],
        [f"Lat {random.uniform(33, 55):.6f}", f"Lon {random.uniform(3, 129):.6f}"],
    ]
    lines: dict[tuple[int, int], list[str]] = {}
    order = random.permutation(4)
    for place, block in zip(order, blocks, strict=False):
        if random.random() < 0.75:
            lines[CORNERS[place]] = block
    return Text(
        lines,
        COLOURS[random.integers(len(COLOURS))],
        random.uniform(0.04, 0.068),
        bool(random.random() < 0.6),
        bool(random.random() < 0.08),
    )
