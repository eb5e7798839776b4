"""bench_throughput.py [BATCH…] [PRESET…]: images per second of ICAM on a GPU in float16, from a camera's bytes to
logits, at batch 256 and of one image, or as said. Without a GPU it runs, too, a few rounds of small batches: to see
that it does.

Four ways: as it was trained, and lean (deploy/lean.py: BatchNorm folded, products of weights made once, the divisor of
pixels in the stem's weights), each plain and compiled. All are replayed as a CUDA graph, so that no time goes to the
launching of kernels. Rounds take turns. Of one image the next begins when its logits are there; batches of 256 are
queued.
"""

import copy
import functools
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from foveal.deploy.measure.origin import origin
from foveal.deploy.twins.fused_icam import Frames
from foveal.models.store import describe
from foveal.models.zoo import create
from foveal.report.table import Table, markdown_row
from foveal.tasks.classify.card import ClassifyCard
from foveal.training.cuda_graph import CudaGraph

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
ROUNDS, BATCHES = (11, (256, 1)) if GPU else (2, (2, 1))


class Trained(nn.Module):
    """Bytes to logits as training does it."""

    def __init__(self, model: nn.Module, card: ClassifyCard) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("mean", torch.tensor(card.mean)[:, None, None])
        self.register_buffer("std", torch.tensor(card.std)[:, None, None])

    def forward(self, frames: Tensor) -> Tensor:
        images = (frames.permute(0, 3, 1, 2) / 255 - self.mean) / self.std
        logits: Tensor = self.model(images.half().contiguous(memory_format=torch.channels_last))
        return logits


class Lean(nn.Module):
    def __init__(self, model: nn.Module, card: ClassifyCard) -> None:
        super().__init__()
        self.frames = Frames(model, card)

    def forward(self, frames: Tensor) -> Tensor:
        logits: Tensor = self.frames(frames)[0]
        return logits


def wait() -> None:
    if GPU:
        torch.cuda.synchronize()


def main(presets: list[str], batches: Sequence[int]) -> None:
    torch.backends.cudnn.benchmark = True
    print(" · ".join(f"{key} {value}" for key, value in origin(str(DEVICE)).items()), end="\n\n")
    head = Table(["build", "batch", "ms", "images per second", "largest change of a logit"], [])
    print("\n".join(head.markdown_head()), flush=True)
    for preset in presets:
        torch.manual_seed(0)
        model = create(preset, classes=2).eval().requires_grad_(False)
        family, config = describe(model)
        card = ClassifyCard(model=preset, family=family, config=config, classes=("a", "b"))
        for batch in batches:
            frames = torch.randint(0, 256, (batch, 224, 224, 3), dtype=torch.uint8, device=DEVICE)
            with torch.inference_mode():
                exact = Trained(copy.deepcopy(model), card).to(DEVICE)
                truth = exact.model((frames.permute(0, 3, 1, 2) / 255 - exact.mean) / exact.std)
            _measure(preset, model, card, frames, truth)


def _measure(preset: str, model: nn.Module, card: ClassifyCard, frames: Tensor, truth: Tensor) -> None:
    works: dict[str, Callable[[], object]] = {}
    changes = {}
    with torch.inference_mode():
        for name, kind in (("as trained", Trained), ("lean", Lean)):
            net = kind(copy.deepcopy(model), card).half().to(DEVICE)
            for compiled in (False, True):
                torch._dynamo.reset()
                called = torch.compile(net, dynamic=False) if compiled else net
                label = f"{preset}, {name}{', compiled' if compiled else ''}"
                try:
                    changes[label] = float((called(frames).float() - truth).abs().max())
                    work = functools.partial(called, frames)
                    works[label] = CudaGraph(work).replay if GPU else work
                except Exception as error:  # noqa: BLE001 — one that fails is named, the others are measured
                    print(
                        f"{label}: {type(error).__name__}: {' '.join(str(error).split())[:200]}",
                        file=sys.stderr,
                        flush=True,
                    )
        taken = {label: list[float]() for label in works}
        steps = (20 if len(frames) > 1 else 200) if GPU else 1
        for _ in range(ROUNDS):
            for label, work in works.items():
                wait()
                start = time.perf_counter()
                for _ in range(steps):
                    work()
                    if len(frames) == 1:
                        wait()
                wait()
                taken[label].append((time.perf_counter() - start) / steps)
    for label, seconds in taken.items():
        middle = statistics.median(seconds)
        spread = f"{1e3 * middle:.3f} ({1e3 * min(seconds):.3f}–{1e3 * max(seconds):.3f})"
        cells = [label, str(len(frames)), spread, f"{len(frames) / middle:,.0f}", f"{changes[label]:.2g}"]
        print(markdown_row(cells), flush=True)


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    main([word for word in sys.argv[1:] if not word.isdigit()] or ["icam-31k"], numbers or BATCHES)
