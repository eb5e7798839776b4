"""`make proof`: measure every mechanism in every form, and write the largest errors down.

    error = max |y − y*|,   y* the mechanism in float64 with the explicit kernel, which itself is held against plain loops
"""

import argparse
import copy
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("ORT_DISABLE_ALL_LOGGING", "1")
sys.path.insert(0, str(Path(__file__).parent))

import torch
from case import Case, as_tensors, case, cases, cast, error, tensors

from foveal.app.whole import write_whole
from foveal.core import attend as core
from foveal.deploy.origin import origin
from foveal.mask import causal

COLUMNS = {
    "loops": "float64 against plain Python loops",
    "explicit": "float32, explicit kernel",
    "fused": "float32, fused kernels: flash and blocks, the worse of the two",
    "masked": "float32, fused kernels, causal mask",
    "bf16": "bfloat16, weights and inputs rounded to it on both sides",
    "compiled": "float32, torch.compile with inductor, no graph break",
    "ONNX": "float32, exported and run by onnxruntime",
}


@contextmanager
def forced(name: str) -> Iterator[set[str]]:
    """Every attention takes that kernel; the answer tells which ones really ran."""
    ran: set[str] = set()
    original = core._choose

    def choose(call: Any, asked: str) -> Any:
        chosen = original(call, name)
        ran.add(chosen.name)
        return chosen

    core._choose = choose
    try:
        yield ran
    finally:
        core._choose = original


def loops(one: Case) -> float:
    module, inputs = one.double()
    with forced("explicit"):
        y = module(*inputs)
    return error(y, as_tensors(one.loops(), y))


def reference(one: Case, **options: Any) -> Any:
    module, inputs = one.double()
    with forced("explicit"):
        return module(*inputs, **options)


def explicit(one: Case) -> float:
    with forced("explicit"):
        return error(one.module(*one.inputs), reference(one))


def fused(one: Case, **options: Any) -> float | str:
    errors, expected = [], reference(one, **options)
    for name in ("flash", "blocks"):
        with forced(name) as ran:
            errors.append(error(one.module(*one.inputs, **options), expected))
        if not ran:
            return "no dot product: one form"
    return max(errors)


def masked(one: Case) -> float | str:
    if not one.takes_mask:
        return "takes no mask"
    expected = reference(one, mask=causal)
    unmasked = reference(one)
    assert error(expected, unmasked) > 0, "the mask changes nothing"
    errors = []
    for name in ("flash", "blocks", "auto"):
        with forced(name):
            errors.append(error(one.module(*one.inputs, mask=causal), expected))
    return max(errors)


def bf16(one: Case) -> float:
    module, inputs = copy.deepcopy(one.module).bfloat16(), cast(one.inputs, torch.bfloat16)
    exact = copy.deepcopy(module).double()
    with forced("explicit"):
        expected = exact(*cast(inputs, torch.float64))
    return error(module(*inputs), expected)


def compiled(one: Case) -> float:
    torch._dynamo.reset()
    return error(torch.compile(one.module, fullgraph=True)(*one.inputs), reference(one))


def onnx(one: Case) -> float | str:
    import onnxruntime

    given = [value for value in one.inputs if isinstance(value, torch.Tensor)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.onnx"
        with open(os.devnull, "w", encoding="utf-8") as quiet:
            kept, sys.stdout = sys.stdout, quiet
            try:
                torch.onnx.export(one.module, one.inputs, str(path), dynamo=True, verbose=False)
            finally:
                sys.stdout = kept
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]
        # An input that the mechanism does not read is not part of the graph.
        feed = {name: value.numpy() for name, value in zip(names, given, strict=False)}
        results = [torch.from_numpy(result) for result in session.run(None, feed)]
    return error(results, tensors(reference(one)))


def measured(measure: Callable[[Case], float | str], one: Case) -> float | str:
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return measure(one)
    except Exception as problem:
        return f"{type(problem).__name__}: {' '.join(str(problem).split())[:120]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="*", help="names of mechanisms")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows, notes = [], []
    measures = {"loops": loops, "explicit": explicit, "fused": fused, "masked": masked, "bf16": bf16, "compiled": compiled, "ONNX": onnx}
    for entry in cases():
        if args.only and entry.name not in args.only:
            continue
        started, cells = time.perf_counter(), []
        for column, measure in measures.items():
            found = measured(measure, case(entry))
            if isinstance(found, str):
                if found not in notes:
                    notes.append(found)
                found = f"[{notes.index(found) + 1}]"
            else:
                found = "0" if found == 0 else f"{found:.1e}"
            cells.append(found)
        rows.append(f"| {entry.kind} | `{entry.name}` | " + " | ".join(cells) + " |")
        print(f"{entry.name}: {dict(zip(measures, cells, strict=True))} {time.perf_counter() - started:.0f} s", flush=True)
    facts = " · ".join(f"{key} {value}" for key, value in origin("cpu", 1).items())
    lines = [
        "# Proof",
        "",
        "The largest error of every mechanism in every form, measured by `make proof` on the mechanism's own example.",
        "The reference is the mechanism in float64 with the explicit kernel; that one is held against plain Python loops in the first column.",
        "",
        *(f"- **{column}**: {what}" for column, what in COLUMNS.items()),
        "",
        f"| kind | mechanism | {' | '.join(COLUMNS)} |",
        f"|---|---|{'---|' * len(COLUMNS)}",
        *rows,
        "",
        *(f"{number}. {note}" for number, note in enumerate(notes, 1)),
        "",
        facts,
        "",
    ]
    write_whole(args.out, "\n".join(lines).encode())
    print(f"written: {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
