"""Label maps that no file holds: drawn once, measured, and kept deflated in one buffer, about a kilobyte each."""

import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foveal.data.label_maps import LabelMap
from foveal.data.measured import Findings, Measured, areas_of, findings, in_threads, joined
from foveal.data.source import Names
from foveal.progress import Progress, silent

QUICK = 1  # zlib's level


@dataclass(frozen=True, eq=False)
class PackedMaps:
    """Label map i is buffer[offsets[i] : offsets[i + 1]], deflated."""

    names: Names  # what to call each in a report
    buffer: bytes
    offsets: NDArray[np.int64]  # (N + 1,)
    sizes: NDArray[np.int32]  # (N, 2) height and width

    def __len__(self) -> int:
        return len(self.sizes)

    def file(self, index: int) -> str:
        return self.names[index]

    def label_map(self, index: int) -> LabelMap:
        content = zlib.decompress(self.buffer[self.offsets[index] : self.offsets[index + 1]])
        height, width = self.sizes[index].tolist()
        return np.frombuffer(bytearray(content), np.uint8).reshape(height, width)


def pack_maps(
    draw: Callable[[int], LabelMap], names: Sequence[str], classes: int, progress: Progress = silent
) -> tuple[PackedMaps, Measured]:
    """draw(i) for every name, kept and measured."""

    def one(index: int) -> tuple[bytes, tuple[int, int], NDArray[np.int64], Findings]:
        label_map = np.ascontiguousarray(draw(index))
        height, width = label_map.shape
        return (
            zlib.compress(label_map.tobytes(), QUICK),
            (height, width),
            areas_of(label_map, classes),
            findings(label_map),
        )

    packed, sizes, areas, found = [], [], [], []
    for content, size, area, parts in in_threads(one, range(len(names)), "drawing label maps", progress):
        packed.append(content)
        sizes.append(size)
        areas.append(area)
        found.append(parts)
    measured = joined(sizes, areas, found)
    offsets = np.cumsum([0, *map(len, packed)], dtype=np.int64)
    return PackedMaps(Names.of(map(os.fsdecode, names)), b"".join(packed), offsets, measured.sizes), measured
