"""Many frames in one picture, each with its kinds written below: how a person checks what the renderer draws."""

from collections.abc import Sequence

from PIL import Image, ImageDraw

from foveal.data.pipes.overlay import font
from foveal.data.pipes.render import Frame
from foveal.errors import expect, expect_integer, short_repr


def contact_sheet(frames: Sequence[Frame], columns: int) -> Image.Image:
    """The frames in rows of `columns`, all at the size of the largest."""
    expect_integer(columns, "columns of a contact sheet")
    expect(len(frames) > 0, "frames of a contact sheet", "at least one", short_repr(list(frames)))
    size, gap, label = max(frame.image.shape[0] for frame in frames), 4, 16
    rows = -(-len(frames) // columns)
    sheet = Image.new("RGB", (columns * (size + gap) + gap, rows * (size + label + gap) + gap), (24, 24, 24))
    pen = ImageDraw.Draw(sheet)
    for number, frame in enumerate(frames):
        x, y = gap + number % columns * (size + gap), gap + number // columns * (size + label + gap)
        sheet.paste(Image.fromarray(frame.image), (x, y))
        words = ", ".join(f"{finding.kind} {finding.clock or 12:.0f}h" for finding in frame.findings) or "normal"
        while len(words) > 1 and pen.textlength(words, font(11)) > size:
            words = words[:-2] + "…"
        pen.text((x + 2, y + size + 1), words, fill=(230, 230, 230), font=font(11))
    return sheet
