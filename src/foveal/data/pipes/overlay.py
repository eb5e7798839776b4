"""What the recorder writes over the picture: distance, numbers of pipe and manholes, day and time, size, site, place.

Not every recorder does.

Most write one to four lines into several corners at once, white with a dark outline. A 16:9 frame that was made square
has narrow letters.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

COLOURS = ((255, 255, 255),) * 7 + ((240, 240, 240), (255, 255, 90), (120, 255, 120), (20, 20, 20))
SITES = (
    "North trunk sewer",
    "Mill Lane",
    "Site 12",
    "Harbour district",
    "Catchment B4",
    "Station road",
    "Lot 44 drainage",
    "East basin",
)
USES = ("storm", "foul", "combined", "SW", "CS", "")

# thin strokes are drawn fuller than they fall on the pixels, and their outline weaker
STROKE = [min(255, value * 17 // 10) for value in range(256)]
OUTLINE = [value * 11 // 20 for value in range(256)]


@dataclass(frozen=True)
class Text:
    """Lines of text for each corner (right?, bottom?), and their look."""

    lines: dict[tuple[int, int], list[str]]
    colour: tuple[int, int, int]
    height: float  # of a line, as a share of the picture
    outline: bool
    plate: bool
    narrow: float = 1.0  # how many times narrower the letters are than they were drawn

    def write(self, picture: Image.Image) -> tuple[Image.Image, NDArray[np.bool_]]:
        """The picture with the text, and the pixels that the text covers."""
        size = picture.width
        covered = np.zeros((size, size), bool)
        if not self.lines:
            return picture, covered
        width = round(size * self.narrow)
        ink = Image.new("L", (width, size))
        pen = ImageDraw.Draw(ink)
        step = max(self.height * size, 5)
        face = font(max(int(step * 0.85), 5))
        picture = picture.copy()
        for (right, bottom), lines in self.lines.items():
            y = size - step * (len(lines) + 0.5) if bottom else step * 0.5
            for words in lines:
                long = pen.textlength(words, face)
                x = width - long - step * 0.6 if right else step * 0.6
                if self.plate:
                    plate = (int((x - 1) / self.narrow), int(y), int((x + long + 1) / self.narrow), int(y + step))
                    picture.paste(self._other(), plate)
                    covered[max(plate[1], 0) : plate[3], max(plate[0], 0) : plate[2]] = True
                pen.text((x, y), words, fill=255, font=face)
                y += step
        if width != size:
            ink = ink.resize((size, size), Image.Resampling.BILINEAR)
        covered |= np.asarray(ink) > 90
        for top, lowest in ((0, size // 2), (size // 2, size)):
            box = ink.crop((0, top, size, lowest)).getbbox()
            if box is None:
                continue
            x, y = box[0], box[1] + top
            part = ink.crop((x, y, box[2], box[3] + top))
            around = part.point(OUTLINE)
            for across, down in ((1, 1), (-1, -1)) if self.outline else ():
                picture.paste(self._other(), (x + across, y + down), around)
            picture.paste(self.colour, (x, y), part.point(STROKE))
        return picture, covered

    def _other(self) -> tuple[int, int, int]:
        """The colour against which the letters stand."""
        return (20, 20, 26) if sum(self.colour) > 300 else (220, 220, 220)


@lru_cache(maxsize=32)
def font(height: int) -> Any:
    """Pillow's own font: nothing to install, nothing to ship."""
    return ImageFont.load_default(height)


def draw_text(random: np.random.Generator) -> Text:
    """What some recorder writes; one in eight writes nothing."""
    if random.random() < 0.12:
        return Text({}, (255, 255, 255), 0.05, False, False)
    mark = random.choice(["-", "/", "."])
    day = f"{random.integers(2008, 2026)}{mark}{random.integers(1, 13):02d}{mark}{random.integers(1, 29):02d}"
    clock = f"{random.integers(6, 20):02d}:{random.integers(60):02d}:{random.integers(60):02d}"
    metres = f"{random.uniform(0, 99):0{random.choice([4, 5])}.1f}{random.choice(['m', ' m', 'M'])}"
    first = f"{random.choice(['HN', 'A', 'S', 'MH', '', ''])}{random.integers(10, 99999)}"
    holes = [f"# {random.choice([first, str(random.integers(1000, 99999))])}" for _ in range(random.integers(1, 3))]
    size = (
        f"D {random.integers(4, 24) * 50} / {random.choice(['HP', 'PE', 'VC', 'PVC', 'DCIP'])} / {random.choice(USES)}"
    )
    way = str(random.choice(["upstream", "downstream", "DS", "US", "forward", "reverse"]))
    site = str(random.choice(SITES))
    place = [f"Lat : {random.uniform(33, 55):.6f}", f"Lon : {random.uniform(3, 129):.6f}"]
    blocks = {
        (0, 0): [metres, f"{random.choice(['R ', 'PIPE ', 'ID ', ''])}{first}", *holes],
        (1, 0): [day, clock, size] if random.random() < 0.7 else [day, clock],
        (0, 1): [site, way] if random.random() < 0.7 else [way],
        (1, 1): place,
    }
    corners = list(blocks)
    if random.random() < 0.3:  # another recorder has them elsewhere
        corners = [corners[k] for k in random.permutation(4)]
    shown = random.random(4) < (0.95, 0.85, 0.7, 0.5)
    lines = {corner: block for corner, block, there in zip(corners, blocks.values(), shown, strict=True) if there}
    narrow = float(random.choice([1.0, 1.0, 1.4]))
    return Text(
        lines,
        COLOURS[random.integers(len(COLOURS))],
        random.uniform(0.04, 0.06) * (1.0 if narrow == 1 else 1.2),
        bool(random.random() < 0.8),
        bool(random.random() < 0.06),
        narrow,
    )
