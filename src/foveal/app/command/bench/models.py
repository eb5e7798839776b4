"""`foveal bench models A.onnx RUN … --peer B.onnx`: the time per image against the batch, in turns,
beside what else it costs.

    time per image = median time of a batch / its images
    ratio          = theirs / that of the first model, at the same batch

Before anything is timed, each contender answers twice: a model that drops out, or answers otherwise the second time,
is refused. Exported files and peers run without torch; runs and presets are exported in memory first, or run by torch
where --runtime says so. torch.compile makes its graphs before the warm-up, and the time of that is a row of its own;
where it cannot, a row says why, and the others are timed. Where one call of a graph is no answer, its task says what
answers: a whole sentence, step by step. Images have the side that --size names, else that of the model's card; a
graph that leaves its sides free is fed with it.
"""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.app.command.bench.compiled import CannotCompileError, Compiled
from foveal.app.command.bench.graph import (
    Contender,
    Size,
    asked_sides,
    expect_images,
    image_preset,
    is_peer,
    of_graph,
    read_graph,
)
from foveal.deploy.measure.clock import Job, Timing
from foveal.errors import FovealError, counted, expect, unknown
from foveal.report.bench import RUNTIMES, Bench, Row
from foveal.report.plot import curve
from foveal.report.table import plain_name
from foveal.runtime.card import ImageCard
from foveal.runtime.onnx_names import EXPORTED
from foveal.tasks.load import find_model, load
from foveal.tasks.model import Model

OBEYS = ("models", "peer", "batch", "runtime", "size")  # the flags that it obeys

LARGEST_BATCH = 4096


def measure(bench: Bench) -> None:
    asked = bench.asked
    assert asked is not None
    batches = _batches(asked.batch or "1")
    runtimes = ("onnxruntime" if asked.runtime is None else asked.runtime).split(",")
    for runtime in runtimes:
        if runtime not in RUNTIMES:
            raise unknown("runtime", runtime, RUNTIMES)
    files = [name for name in asked.models if name.endswith(EXPORTED)]
    expect(not files or "onnxruntime" in runtimes, "--runtime", "onnxruntime for an exported file", asked.runtime)
    expect(
        bool(asked.models),
        "foveal bench models",
        "at least one model",
        "none",
        "name an exported file, a run or a preset",
    )
    called = short_names([*asked.models, *asked.peer])
    side = _side(asked.size)
    models = {name: _opened(name, side, bench.threads) for name in asked.models if not is_peer(name)}
    usual = (model.card.size for model in models.values() if isinstance(model.card, ImageCard))
    size = Size(side, next(usual, None))
    contenders: list[Contender] = []
    for name in (*asked.models, *asked.peer):
        if name in models:
            contenders += _ours(name, models[name], called[name], runtimes, bench.threads, size)
        else:
            contenders.append(of_graph(called[name], read_graph(Path(name)), bench.threads, size=size))
    names = [one.name for one in contenders]
    bench.stem = plain_name("-".join(["models", *dict.fromkeys(called.values())]))[:80]
    expect(len(set(names)) == len(names), "the models", "one of each name", ", ".join(names))
    contenders = [one for one in contenders if _checked(bench, one, batches)]
    expect(bool(contenders), "--runtime", "one that this machine has", asked.runtime, "add onnxruntime or torch")
    bench.add(Row("checked", f"{counted(len(contenders), 'contender')}, with the same answers twice", "", None, ""))
    for batch in batches:
        _one_batch(bench, contenders, batch)
    if len(batches) > 1:
        lines = {
            one.name: [(batch, 1e3 * bench.timings[f"batch {batch}"][one.name].median / batch) for batch in batches]
            for one in contenders
        }
        bench.picture = curve(lines, "samples at once", "ms per sample")
    for one in contenders:
        if one.compiled:
            words = " · ".join(f"{seconds:.1f} s for batch {batch}" for batch, seconds in one.compiled.items())
            bench.add(Row(f"{one.name}: compiled before the warm-up", words, "", None, ""))
        held = _held(one, max(batches))
        bench.add(Row(f"{one.name}: costs", ", ".join((*one.facts, held) if held else one.facts), "", None, ""))


def short_names(files: list[str]) -> dict[str, str]:
    """What each is called: its name without folder and ending.

    Of two that would be called alike, with as many folders, or the ending, as it takes.
    """
    paths = {file: Path(file).with_suffix("") if file.endswith(EXPORTED) else Path(file) for file in files}
    names = {}
    for file, path in paths.items():
        for depth in range(1, len(path.parts) + 1):
            names[file] = "/".join(path.parts[-depth:])
            if sum(other.parts[-depth:] == path.parts[-depth:] for other in paths.values()) == 1:
                break
        else:
            alike = sum(other == path for other in paths.values()) > 1  # such as a run m beside m.onnx
            names[file] = Path(file).name if alike else names[file]
    return names


def _one_batch(bench: Bench, contenders: list[Contender], batch: int) -> None:
    what = f"batch {batch}"
    taken = bench.time(what, {one.name: one.job(batch) for one in contenders})
    first = contenders[0].name
    for one in contenders:
        timing = taken[one.name]
        ratio = None if one.name == first else timing.median / taken[first].median
        bench.add(Row(f"{what}: {one.name}", _per_sample(timing, batch), "", ratio, f"× the time of {first}"))


def _per_sample(timing: Timing, batch: int) -> str:
    median, low, high = (1e3 * seconds / batch for seconds in (timing.median, timing.p10, timing.p90))
    return f"{median:.3f} ms per sample ({low:.3f}–{high:.3f})"


def _held(one: Contender, batch: int) -> str:
    try:
        held = None if one.footprint is None else one.footprint(batch)
    except FovealError as error:  # what was timed is not lost for it
        return str(error)
    if held is None:
        return ""
    return (
        f"{held.opened / 1e6:.1f} MB opened and {held.ran / 1e6:.1f} MB at most while it runs at batch {batch}, "
        "above an empty graph"
    )


def _opened(name: str, side: int | None, threads: int) -> Model:
    if side is not None and find_model(name) is None:
        return image_preset(name, side)
    model = load(name, threads=threads) if name.endswith(EXPORTED) else load(name, device="cpu", threads=threads)
    if side is not None:
        expect_images(model, name)
    return model


def _ours(name: str, model: Model, label: str, runtimes: list[str], threads: int, size: Size) -> Iterator[Contender]:
    size = size.or_of(model)
    if model.is_exported:
        yield of_graph(
            label, read_graph(model.path or Path(name)), threads, (model.card.model,), model=model, size=size
        )
        return
    import torch

    from foveal.deploy.measure.cost import flops, parameters

    torch.set_num_threads(threads)
    if model.random:
        print(f"{name}: no weights come with foveal, so they are random: times are those of any weights")
    network: Any = model.network
    example = network.example()
    # of images, what the network takes where torch runs it; an exported graph makes it of those of its card's size
    side = int(example[0].shape[-1]) if isinstance(model.card, ImageCard) else None
    at = "" if side in (None, size.side) else f" at {side} × {side}"
    facts = (f"{parameters(network):,} parameters", f"{flops(network, *example) / 1e6:.1f} MFLOP{at}")
    for runtime in runtimes:
        if runtime == "onnxruntime":
            yield of_graph(label, model.graph(), threads, facts, model=model, size=size)
            continue
        fits = size.asked in (None, side)
        expect(fits, "--size", f"{side}, the side of what {name} takes in the runtime {runtime}", size.asked)
        if runtime == "compile":
            made = Compiled(network)
            yield Contender(f"{label} ({runtime})", made, None, facts, made.seconds)
        else:
            yield Contender(f"{label} ({runtime})", _in_torch(network, runtime), None, facts)


def noise(network: Any, batch: int) -> tuple[Any, ...]:
    """Random inputs of the shapes that a network takes: numbers where it takes numbers,
    its own example where it takes ids.
    """
    import torch

    draw = torch.Generator().manual_seed(0)
    return tuple(
        torch.randn(one.shape, generator=draw) if one.is_floating_point() else one for one in network.example(batch)
    )


def _in_torch(network: Any, runtime: str) -> Callable[[int], Job]:
    import torch

    def job(batch: int) -> Job:
        inputs = noise(network, batch)
        net = network.eval().requires_grad_(False)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a trace is of these shapes only, which is what is timed
            if runtime == "script":
                net = torch.jit.freeze(torch.jit.trace(net, inputs))

        @torch.inference_mode()
        def once() -> Any:
            return net(*inputs)

        return once

    return job


def _checked(bench: Bench, one: Contender, batches: list[int]) -> bool:
    """Whether it can run here; else a row says why not."""
    try:
        for batch in batches[1:]:
            one.job(batch)  # a graph that cannot be made is reported before anything is timed
        _check(one, batches[0])
    except CannotCompileError as error:
        bench.add(Row(one.name, "", f"left out: {error}", None, ""))
        return False
    return True


def _check(one: Contender, batch: int = 1) -> None:
    """In evaluation mode and deterministic: the same images, the same answer."""
    job = one.job(batch)
    first, second = _arrays(job()), _arrays(job())
    same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True))
    expect(same, one.name, "the same answer twice", "another", "put it into evaluation mode")


def _arrays(answer: Any) -> list[NDArray[Any]]:
    return [np.asarray(part) for part in (answer if isinstance(answer, (list, tuple)) else [answer])]


def _side(text: str | None) -> int | None:
    if text is None:
        return None
    sides = asked_sides(text)
    expect(len(sides) == 1, "--size", "one integer, as contenders are timed side by side", text)
    return sides[0]


def _batches(text: str) -> list[int]:
    try:
        counts = [int(word) for word in text.split(",")]
    except ValueError:
        counts = []
    fits = bool(counts) and min(counts) >= 1 and max(counts) <= LARGEST_BATCH
    expect(fits, "--batch", f"integers from 1 to {LARGEST_BATCH:,}, such as 1,4,16", text)
    return counts
