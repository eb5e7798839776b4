"""bench_backbones.py [--models A,B]: ViT, Swin and PVT beside transformers' own with the same weights, on a GPU.

Forward in evaluation mode with weights of bfloat16, as one serves; forward and backward with weights of float32 and
autocast to bfloat16, as one trains. Both sides by torch.compile in the same mode, batches of 256 images of 224 × 224
pixels. Rounds of both take turns. First the two must agree in float32, in their logits and in the gradient of the
patches' weights; how far bfloat16 then is from that stands in the table. Peak memory is of one call of one of the two,
above the weights and images. Each row is printed and written as soon as it is there.

--tiny rehearses all of it without a GPU: two images, one round, not compiled.
"""

import argparse
import copy
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import foveal
from foveal.atomic import write_atomic
from foveal.deploy.measure.clock import Timing, interleaved
from foveal.deploy.measure.memory import peak
from foveal.deploy.measure.origin import origin
from foveal.errors import FovealError, expect
from foveal.models.convert_vision import to_transformers
from foveal.models.zoo import create
from foveal.report.table import Table, markdown_row

MODELS = ("swin-tiny", "pvt-tiny", "vit-base", "vit-tiny")
CLASSES, SIDE, CHUNK = 1000, 224, 64
AGREE = 1e-3  # of `change` in float32: on a CPU it is 1e-5 at most, and 1e-2 with one table or shift wrong
COLUMNS = (
    "model",
    "pass",
    "ours, ms",
    "transformers, ms",
    "× as fast",
    "ours, images per second",
    "ours, peak GiB",
    "transformers, peak GiB",
    "ours, change",
    "transformers, change",
    "graph breaks",
)
Call = Callable[[Tensor], Tensor]


class Theirs(nn.Module):
    """transformers' model as ours is called: images → logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images).logits
        return logits


def pair(preset: str) -> dict[str, nn.Module]:
    """The two models with the same weights: of a size at which attention is far from even and no bias is 0, so that
    a wrong weight, position or shift is seen in the logits.
    """
    import transformers
    from safetensors.torch import save_file

    torch.manual_seed(0)
    ours = create(preset, classes=CLASSES, image=SIDE)
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            inputs = parameter[0].numel() if parameter.dim() > 1 and "table" not in name else None
            parameter.add_(torch.randn_like(parameter) * (0.3 if inputs is None else inputs**-0.5))
    config, weights = to_transformers(ours)
    kind = getattr(transformers, config["architectures"][0])
    with tempfile.TemporaryDirectory() as folder:  # by a file: its names are those of every version of transformers
        save_file(weights, Path(folder) / "model.safetensors", {"format": "pt"})
        kind.config_class(**config).save_pretrained(folder)
        theirs = kind.from_pretrained(folder)
    return {"ours": ours.eval(), "transformers": Theirs(theirs).eval()}


def scenes(batch: int) -> Tensor:
    """Images that differ as a whole, and not by their noise alone, which the mean over an image takes away."""
    draw = torch.Generator().manual_seed(0)
    coarse = torch.randn(batch, 3, 4, 4, generator=draw)
    fine = torch.randn(batch, 3, SIDE, SIDE, generator=draw)
    return 2 * functional.interpolate(coarse, size=(SIDE, SIDE), mode="bilinear") + 0.5 * fine


def gradient(model: nn.Module, call: Call, images: Tensor, labels: Tensor) -> Tensor:
    """Of the mean loss, by the weights of the patches: the farthest that a gradient goes."""
    for part, some in zip(images.split(CHUNK), labels.split(CHUNK), strict=True):
        loss = functional.cross_entropy(call(part).float(), some, reduction="sum") / len(images)
        loss.backward()
    found = _patches(model).grad
    assert found is not None
    model.zero_grad(set_to_none=True)
    return found.float()


def check(preset: str, models: dict[str, nn.Module], images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and gradient in float32, or an error if the two sides differ."""
    logits, gradients = {}, {}
    for name, model in models.items():
        with torch.no_grad():
            logits[name] = torch.cat([model(part) for part in images.split(CHUNK)])
        gradients[name] = gradient(model, model, images, labels)
    for what, (ours, theirs) in (("logits", logits.values()), ("gradients", gradients.values())):
        apart = change(ours, theirs)
        expect(apart < AGREE, f"{preset}'s {what}", f"those of transformers to {AGREE:g}", f"{apart:.2g} beside them")
        print(f"{preset}: {what} agree to {apart:.1e} in float32", file=sys.stderr, flush=True)
    return logits["ours"], gradients["ours"]


def change(given: Tensor, exact: Tensor) -> float:
    """The root of the mean squared difference, in standard deviations of what is exact from its mean over the first
    axis: of logits, over the images, so that what all images share makes nothing look near.
    """
    apart = exact - exact.mean(0)
    return float((given.float() - exact).square().mean().sqrt() / apart.square().mean().sqrt())


def forward(model: nn.Module, call: Call, images: Tensor) -> Callable[[], Tensor]:
    def job() -> Tensor:
        with torch.no_grad():
            return call(images)

    return job


def training(model: nn.Module, call: Call, images: Tensor, labels: Tensor) -> Callable[[], Tensor]:
    def job() -> Tensor:
        with torch.autocast(images.device.type, torch.bfloat16):
            logits = call(images)
        functional.cross_entropy(logits.float(), labels).backward()  # type: ignore[no-untyped-call]
        found = _patches(model).grad
        assert found is not None
        model.zero_grad(set_to_none=True)
        return found

    return job


def measure(args: argparse.Namespace, preset: str, show: Callable[[str], None]) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    models = {name: model.to(device) for name, model in pair(preset).items()}
    images = scenes(args.batch).to(device)
    labels = torch.arange(args.batch, device=device) % CLASSES
    exact = check(preset, models, images, labels)
    for number, title in enumerate(("forward", "forward and backward")):
        torch._dynamo.reset()
        jobs, peaks, changes, breaks = {}, {}, {}, {}
        for name, model in models.items():
            begun = time.perf_counter()
            torch._dynamo.utils.counters.clear()
            net = model if number else copy.deepcopy(model).bfloat16()
            call = around(args, name, torch.compile(net, dynamic=False, mode=args.mode) if args.compile else net)
            jobs[name] = training(net, call, images, labels) if number else forward(net, call, images.bfloat16())
            changes[name] = change(jobs[name](), exact[number])
            peaks[name] = peak(jobs[name], device.type) / 2**30
            breaks[name] = sum(torch._dynamo.utils.counters["graph_break"].values())
            took = time.perf_counter() - begun
            print(f"{preset}, {title}, {name}: ready after {took:.0f} s", file=sys.stderr, flush=True)
        timings = interleaved(jobs, rounds=args.rounds, warm_up=args.warm_up, device=device.type)
        show(row(preset, title, args.batch, timings, peaks, changes, breaks))


def around(args: argparse.Namespace, name: str, call: Call) -> Call:
    """Ours inside of `foveal.kernel`, if another kernel than "auto" was asked for."""
    if name != "ours" or args.kernel == "auto":
        return call

    def inside(images: Tensor) -> Tensor:
        with foveal.kernel(args.kernel):
            return call(images)

    return inside


def row(
    preset: str,
    title: str,
    batch: int,
    timings: dict[str, Timing],
    peaks: dict[str, float],
    changes: dict[str, float],
    breaks: dict[str, int],
) -> str:
    ours, theirs = timings["ours"], timings["transformers"]
    spread = [f"{1e3 * one.median:.2f} ({1e3 * one.p10:.2f}–{1e3 * one.p90:.2f})" for one in (ours, theirs)]
    cells = [preset, title, *spread, f"{theirs.median / ours.median:.2f}", f"{batch / ours.median:,.0f}"]
    cells += [f"{gib:.2f}" for gib in peaks.values()] + [f"{one:.1e}" for one in changes.values()]
    return markdown_row([*cells, " and ".join(str(count) for count in breaks.values())])


def page(args: argparse.Namespace, rows: list[str]) -> str:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    facts = " · ".join(f"{key} {value}" for key, value in origin(device).items())
    way = f"torch.compile in mode {args.mode or 'default'}" if args.compile else "not compiled"
    head = Table(COLUMNS, [], words=2).markdown_head()
    given = sys.argv[1:]
    if args.out is not None and "--out" in given:  # where it was written says nothing of it
        del given[given.index("--out") : given.index("--out") + 2]
    return (
        "# ViT, Swin and PVT beside transformers' own\n\n"
        f"`python scripts/{' '.join(['bench_backbones.py', *given])}`: batches of {args.batch} images of {SIDE} × "
        f"{SIDE} pixels, the same weights on both sides, {way}. Forward: weights of bfloat16. Forward and backward: "
        "weights of float32, autocast to bfloat16. "
        f"{args.rounds} rounds in turns after {args.warm_up} of warm-up; median (10th and 90th percentile). "
        "Peak: of one call, above the weights and images. "
        "Change: of the logits (forward) or of the gradient of the patches' weights (backward) against float32, root "
        "mean square, in its standard deviations (of logits: over the images). Graph breaks: ours and transformers'. "
        f"Kernel of ours: {args.kernel}.\n\n{facts}\n\n" + "\n".join([*head, *rows]) + "\n"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--models", metavar="A,B", default=",".join(MODELS), help=f"default: {','.join(MODELS)}")
    parser.add_argument("--batch", metavar="N", type=int, default=256, help="images per call (default: 256)")
    parser.add_argument("--rounds", metavar="N", type=int, default=21, help="rounds in turns (default: 21)")
    parser.add_argument("--warm-up", metavar="N", type=int, default=4, help="rounds that do not count (default: 4)")
    parser.add_argument("--mode", metavar="NAME", help="of torch.compile (default: torch's own)")
    parser.add_argument("--kernel", metavar="NAME", default="auto", help="attention's kernel of ours (default: auto)")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, help="torch.compile (default: unless tiny)")
    parser.add_argument("--tiny", action="store_true", help="a rehearsal: 2 images, 1 round, not compiled")
    parser.add_argument("--out", metavar="FILE", type=Path, help="also write the table, as Markdown")
    args = parser.parse_args()
    if args.tiny:
        args.batch, args.rounds, args.warm_up = 2, 1, 1
    args.compile = not args.tiny if args.compile is None else args.compile
    return args


def main(args: argparse.Namespace) -> int:
    torch.backends.cudnn.allow_tf32 = False  # the check in float32 is of float32
    rows: list[str] = []

    def show(line: str) -> None:
        rows.append(line)
        print(line, flush=True)
        if args.out is not None:
            write_atomic(args.out, page(args, rows).encode())

    print(page(args, []), end="", flush=True)
    failed = 0
    for preset in args.models.split(","):
        try:
            measure(args, preset, show)
        except Exception as error:  # noqa: BLE001 — one that fails is named, the others are measured
            failed += 1
            reason = str(error) if isinstance(error, FovealError) else f"{type(error).__name__}: {error}"
            print(f"error: {preset}: {' '.join(reason.split())[:400]}", file=sys.stderr, flush=True)
    return 1 if failed else 0


def _patches(model: nn.Module) -> nn.Parameter:
    weight: Any = next(part for part in model.modules() if isinstance(part, nn.Conv2d)).weight
    return weight  # type: ignore[no-any-return]


if __name__ == "__main__":
    sys.exit(main(arguments()))
