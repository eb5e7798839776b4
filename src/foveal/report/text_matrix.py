"""A matrix as text: half blocks ▀▄█ for yes and no, shades ░▒▓█ for amounts,
plain ASCII where the terminal knows nothing else.

A character is about twice as high as wide, so a half block is one square cell, and a shade stands twice beside itself.
"""

import math

import numpy as np

from foveal.report.picture import Matrix, shrunk

SHADES, ASCII_SHADES = " ░▒▓█", " .:-=+*#%@"
FRAME, ASCII_FRAME = "┌─┐│└┘", "+-+|++"


def blocks(matrix: Matrix, *, columns: int, encoding: str = "utf-8") -> list[str]:
    """The matrix, values in [0, 1], as framed lines of text, at most `columns` wide.

    A matrix that is too wide is shrunk by means.
    """
    rich = encodes(SHADES + FRAME + "▀▄", encoding)
    room = max(columns - 2, 2)  # without the frame
    if rich and matrix.shape[1] <= room and np.isin(matrix, (0, 1)).all():
        return _framed(_halves(matrix), FRAME)
    step = math.ceil(matrix.shape[1] / (room // 2))
    return _framed(_shaded(shrunk(matrix, step), SHADES if rich else ASCII_SHADES), FRAME if rich else ASCII_FRAME)


def encodes(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _halves(matrix: Matrix) -> list[str]:
    if len(matrix) % 2:
        matrix = np.vstack([matrix, np.zeros((1, matrix.shape[1]))])
    two_by_two = zip(matrix[::2], matrix[1::2], strict=True)
    return [
        "".join(" ▄▀█"[2 * int(upper) + int(lower)] for upper, lower in zip(*pair, strict=True)) for pair in two_by_two
    ]


def _shaded(matrix: Matrix, shades: str) -> list[str]:
    levels = np.ceil(matrix * (len(shades) - 1)).astype(int)  # only 0 is blank
    return ["".join(shades[level] * 2 for level in row) for row in levels]


def _framed(lines: list[str], frame: str) -> list[str]:
    bar = frame[1] * len(lines[0])
    return [frame[0] + bar + frame[2], *(frame[3] + line + frame[3] for line in lines), frame[4] + bar + frame[5]]
