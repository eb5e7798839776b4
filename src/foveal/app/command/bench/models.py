"""`foveal bench models A.onnx RUN … --peer B.onnx`: the time per image against the batch, in turns,
beside what else it costs.

    time per image = median time of a batch / its images
    ratio          = theirs / that of the first model, at the same batch

Before anything is timed, each contender answers twice: a model that drops out, or answers otherwise the second time,
is refused. Exported files and peers run without torch; runs and presets are exported in memory first, or run by torch
where --runtime says so. torch.compile makes its graphs before the warm-up, and the time of that is a row of its own;
where it cannot, a row says why, and the others are timed.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveal.app.command.bench.compiled import CannotCompileError, Compiled
from foveal.deploy.measure.clock import Job, Timing
from foveal.deploy.measure.footprint import footprint
from foveal.errors import FovealError, expect, expect_plain_file, reading, unknown
from foveal.report.bench import RUNTIMES, Bench, Row
from foveal.report.plot import curve
from foveal.report.table import plain_name
from foveal.runtime.onnx_names import EXPORTED
from foveal.runtime.onnx_session import opened
from foveal.tasks.load import load

OBEYS = ("models", "peer", "batch", "runtime")  # the flags that it obeys

LARGEST_BATCH = 4096
KINDS = {"tensor(uint8)": np.uint8, "tensor(float)": np.float32}


@dataclass(frozen=True)
class Contender:
    """One model in one runtime."""

    name: str
    job: Callable[[int], Job]  # of a batch
    graph: bytes | None = None  # of onnxruntime: what a process of its own would open
    facts: tuple[str, ...] = field(default=())  # parameters, work, size of the file: in words
    compiled: Mapping[int, float] = field(default_factory=dict)  # of a batch: seconds until its graph was made


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
    contenders = [one for name in asked.models for one in _ours(name, called[name], runtimes, bench.threads)]
    contenders += [of_graph(called[file], read_graph(Path(file)), bench.threads) for file in asked.peer]
    names = [one.name for one in contenders]
    bench.stem = plain_name("-".join(["models", *dict.fromkeys(called.values())]))[:80]
    expect(len(set(names)) == len(names), "the models", "one of each name", ", ".join(names))
    contenders = [one for one in contenders if _checked(bench, one, batches)]
    expect(bool(contenders), "--runtime", "one that this machine has", asked.runtime, "add onnxruntime or torch")
    bench.add(Row("checked", f"{len(contenders)} contenders answer the same twice", "", None, ""))
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
        held = "" if one.graph is None else _held(one.graph, max(batches), bench.threads)
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


def _held(graph: bytes, batch: int, threads: int) -> str:
    try:
        held = footprint(graph, batch, threads)
    except FovealError as error:  # what was timed is not lost for it
        return str(error)
    if held is None:
        return ""
    return (
        f"{held.opened / 1e6:.1f} MB opened and {held.ran / 1e6:.1f} MB at most while it runs at batch {batch}, "
        "above an empty graph"
    )


def _ours(name: str, label: str, runtimes: list[str], threads: int) -> Iterator[Contender]:
    model = load(name, device="cpu", threads=threads) if not name.endswith(EXPORTED) else load(name, threads=threads)
    if model.is_exported:
        yield of_graph(label, read_graph(Path(name)), threads, (model.card.model,))
        return
    import torch

    from foveal.deploy.measure.cost import flops, parameters

    torch.set_num_threads(threads)
    if model.random:
        print(f"{name}: no weights come with foveal, so they are random: times are those of any weights")
    network: Any = model.network
    facts = (f"{parameters(network):,} parameters", f"{flops(network, *network.example()) / 1e6:.1f} MFLOP")
    for runtime in runtimes:
        if runtime == "onnxruntime":
            yield of_graph(label, model.graph(), threads, facts)
        elif runtime == "compile":
            made = Compiled(network)
            yield Contender(f"{label} ({runtime})", made, None, facts, made.seconds)
        else:
            yield Contender(f"{label} ({runtime})", _in_torch(network, runtime), None, facts)


def of_graph(name: str, content: bytes, threads: int, facts: tuple[str, ...] = ()) -> Contender:
    try:
        session = opened(content, threads)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # noqa: BLE001 — onnxruntime has an exception for each kind of damage
        words = " ".join(str(error).split())[:160]
        raise FovealError(f"{name}: expected an ONNX graph, got a file that onnxruntime cannot open: {words}") from None

    def job(batch: int) -> Job:
        feed = {one.name: _noise(one, batch) for one in session.get_inputs()}

        def once() -> Any:
            try:
                return session.run(None, feed)
            except Exception as error:  # noqa: BLE001 — a graph from anybody may fail in any operator
                words = " ".join(str(error).split())[:160]
                raise FovealError(f"{name}: expected an answer to {batch} samples, got {words}") from None

        return once

    return Contender(name, job, content, (*facts, f"{len(content):,} bytes"))


def _noise(one: Any, batch: int) -> NDArray[Any]:
    """An image as bytes, or as numbers, for an input of a graph; a side without a number is the batch."""
    expect(one.type in KINDS, f"the input {one.name}", f"one of {', '.join(KINDS)}", one.type)
    first, *rest = one.shape
    free = [side for side in rest if not isinstance(side, int)]
    expect(not free, f"the input {one.name}", "sides with numbers, but for the batch", one.shape)
    shape = [batch if not isinstance(first, int) else first, *rest]
    expect(shape[0] == batch, f"the input {one.name}", f"any batch, or {batch}", one.shape, f"give --batch {first}")
    draw = np.random.default_rng(0)
    return (
        draw.integers(0, 256, shape, np.uint8)
        if one.type == "tensor(uint8)"
        else draw.standard_normal(shape, np.float32)
    )


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


def _batches(text: str) -> list[int]:
    try:
        counts = [int(word) for word in text.split(",")]
    except ValueError:
        counts = []
    fits = bool(counts) and min(counts) >= 1 and max(counts) <= LARGEST_BATCH
    expect(fits, "--batch", f"integers from 1 to {LARGEST_BATCH:,}, such as 1,4,16", text)
    return counts


def read_graph(file: Path) -> bytes:
    expect_plain_file(file)
    with reading(file):
        return file.read_bytes()
