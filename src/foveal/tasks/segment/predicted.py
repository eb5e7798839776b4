"""What a segmenter predicted of labelled images, held against their label maps: all that its figures are made of.

Of every image its confusion, the counts of thin things, its findings and one score are kept, so that a thousand
resamples open nothing; its predicted label map deflated, so that a report can show it.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foveal.data.label_maps import LabelMap, unlike_image
from foveal.data.opened import opened_batches
from foveal.data.packed_maps import QUICK, PackedMaps
from foveal.data.segments import SegmentSource
from foveal.data.source import Names
from foveal.metrics.findings import Findings, findings
from foveal.metrics.segmentation import confusion
from foveal.metrics.thin import thin_counts
from foveal.progress import Progress
from foveal.runtime.image import BadImage, Pixels

Answer = Callable[[Pixels], tuple[LabelMap, NDArray[np.floating]]]  # (H, W, 3) → a label map (H, W), scores (K + 1,)
NO_NUMBER = "the model's answer is no number"


@dataclass(frozen=True, eq=False)
class Predicted:
    """N images, of K classes beside the background."""

    kinds: tuple[str, ...]
    files: tuple[str, ...]
    score: NDArray[np.float64]  # (N,) how sure the model is that anything is found
    confusions: NDArray[np.int64]  # (N, K + 1, K + 1)
    thin: NDArray[np.int64]  # (N, K + 1, 2, 4)
    findings: Findings
    maps: PackedMaps  # as they were predicted

    def __len__(self) -> int:
        return len(self.files)

    @property
    def shows(self) -> NDArray[np.int64]:
        """(N, K) pixels of each class in the truth."""
        return np.asarray(self.confusions.sum(2)[:, 1:])

    @property
    def has_finding(self) -> NDArray[np.bool_]:
        """(N,) in the truth."""
        return np.asarray((self.shows > 0).any(1))


def predict_images(
    answer: Answer, kinds: tuple[str, ...], source: SegmentSource, indices: Sequence[int], progress: Progress
) -> tuple[Predicted | None, NDArray[np.int64], list[tuple[str, str]]]:
    """What was predicted, where it stands in the source, and the images that could not be, with their reasons."""

    def opened(index: int) -> tuple[Pixels, LabelMap]:
        pixels, labels = source.image(index), source.label_map(index)
        if labels.shape != pixels.shape[:2]:
            raise BadImage(source.file(index), unlike_image(labels.shape, (pixels.shape[0], pixels.shape[1])))
        return pixels, labels

    rows: list[int] = []
    parts: list[Predicted] = []
    left_out: list[tuple[str, str]] = []
    for ((index, one),) in progress(opened_batches(opened, indices, 1), len(indices), "evaluating"):
        file = source.file(index)
        if isinstance(one, BadImage):
            left_out.append((file, one.reason))
            continue
        pixels, truth = one
        labels, scores = answer(pixels)
        if not np.isfinite(scores).all():
            left_out.append((file, NO_NUMBER))
            continue
        rows.append(index)
        parts.append(_one(kinds, file, truth, labels, float(scores[0])))
    return (joined(parts) if parts else None), np.array(rows, np.int64), left_out


def _one(kinds: tuple[str, ...], file: str, truth: LabelMap, labels: LabelMap, score: float) -> Predicted:
    count, content = len(kinds), zlib.compress(np.ascontiguousarray(labels).tobytes(), QUICK)
    sizes = np.array([labels.shape], np.int32)
    return Predicted(
        kinds,
        (file,),
        np.array([score]),
        confusion(truth, labels, count)[None],
        thin_counts(truth, labels, count)[None],
        findings(truth, labels, count),
        PackedMaps(Names.of([file]), content, np.array([0, len(content)]), sizes),
    )


def joined(parts: Sequence[Predicted]) -> Predicted:
    """The images of several as those of one."""
    files = tuple(file for one in parts for file in one.files)
    lengths = np.concatenate([np.diff(one.maps.offsets) for one in parts])
    maps = PackedMaps(
        Names.of(files),
        b"".join(one.maps.buffer for one in parts),
        np.append(0, np.cumsum(lengths)).astype(np.int64),
        np.concatenate([one.maps.sizes for one in parts]),
    )
    score, confusions, thin = (
        np.concatenate([getattr(one, name) for one in parts]) for name in ("score", "confusions", "thin")
    )
    return Predicted(parts[0].kinds, files, score, confusions, thin, _joined_findings(parts), maps)


def _joined_findings(parts: Sequence[Predicted]) -> Findings:
    starts = np.cumsum([0, *(len(one) for one in parts)])
    label, area, covered = (
        np.concatenate([getattr(one.findings, name) for one in parts]) for name in ("label", "area", "covered")
    )
    image = np.concatenate([one.findings.image + start for one, start in zip(parts, starts[:-1], strict=True)])
    return Findings(label, area, covered, image, int(starts[-1]))
