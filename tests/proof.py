"""`make proof`: measure every mechanism in every form, and write the largest errors down.

    error = max |y − y*|
    y* the mechanism in float64 with the explicit kernel, which itself is held against plain loops

A form whose error is above its column's limit, or that fails, makes the run fail; the table is written all the same.
"""

import argparse
import copy
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import torch
from case import Case, Masked, Method, as_tensors, case, cases, cast, error, run_by_onnx, tensors
from torch import Tensor, nn

from foveal.atomic import write_atomic
from foveal.core import attend as core
from foveal.deploy.measure.origin import origin
from foveal.errors import FovealError
from foveal.mask import causal, padding
from foveal.position import Position
from foveal.report.catalogue import Entry, samples


def loops(one: Case) -> float:
    module, inputs = one.double()
    with forced("explicit"):
        y = module(*inputs)
    return error(y, as_tensors(one.loops(), y))


def explicit(one: Case) -> float:
    with forced("explicit"):
        return error(one.module(*one.inputs), reference(one))


def fused(one: Case) -> float | str:
    errors = fused_errors(inside_attention(one))
    return max(errors) if errors else "It has one form only, as it does not go through `attend`."


def masked(one: Case) -> float | str:
    one = inside_attention(one)
    if isinstance(one.module, Masked):
        return "It is a mask itself."
    if not one.masks:
        return "It takes no mask."
    masks: dict[str, Any] = dict.fromkeys(one.masks, causal)
    try:
        hidden = reference(one, **masks)
    except FovealError:  # it cannot be causal
        batch, tokens = one.inputs[0].shape[:2]
        masks = dict.fromkeys(one.masks, padding([tokens // (1 + sample) for sample in range(batch)]))
        hidden = reference(one, **masks)
    assert error(hidden, reference(one)) > 0, "the mask changes nothing"
    return max(fused_errors(one, **masks), default=error(one.module(*one.inputs, **masks), hidden))


def bf16(one: Case) -> float:
    module, inputs = copy.deepcopy(one.module).bfloat16(), cast(one.inputs, torch.bfloat16)
    exact = copy.deepcopy(module).double()
    with forced("explicit"):
        expected = exact(*cast(inputs, torch.float64))
    return error(module(*inputs), expected)


def compiled(one: Case) -> float:
    torch._dynamo.reset()
    return error(torch.compile(one.module, fullgraph=True)(*one.inputs), reference(one))


def onnx(one: Case) -> float:
    return error(run_by_onnx(one), tensors(reference(one)))


class Column(NamedTuple):
    measure: Callable[[Case], float | str]  # an error, or why there is none
    limit: float  # above it something is wrong
    what: str


COLUMNS = {
    "loops": Column(loops, 1e-12, "float64, against plain Python loops"),
    "explicit": Column(explicit, 1e-5, "float32, explicit kernel"),
    "fused": Column(
        fused, 1e-5, "float32, fused kernels: flash and blocks, the worse of the two; a position, inside an attention"
    ),
    "masked": Column(masked, 1e-5, "the same with a causal mask, or with padding where a mechanism cannot be causal"),
    "bf16": Column(bf16, 1e-1, "bfloat16, weights and inputs rounded to it on both sides"),
    "compiled": Column(compiled, 1e-5, "float32, torch.compile with inductor, no graph break"),
    "ONNX": Column(onnx, 1e-5, "float32, exported and run by onnxruntime"),
}


def reference(one: Case, **masks: Any) -> Any:
    module, inputs = one.double()
    with forced("explicit"):
        return module(*inputs, **masks)


def fused_errors(one: Case, **masks: Any) -> list[float]:
    """The error of each fused kernel that runs here; none where no attention does."""
    errors, expected = [], reference(one, **masks)
    for name in ("flash", "blocks"):
        with forced(name) as ran:
            found = error(one.module(*one.inputs, **masks), expected)
        if name in ran:
            errors.append(found)
    return errors


@contextmanager
def forced(name: str) -> Iterator[set[str]]:
    """Every attention takes that kernel, or blocks where it cannot; the answer tells which ones really ran."""
    ran: set[str] = set()
    original = core._choose

    def choose(call: Any, asked: str) -> Any:
        chosen = original(call, "blocks" if core._ALL[name].refuses(call) else name)
        ran.add(chosen.name)
        return chosen

    core._choose = choose
    try:
        yield ran
    finally:
        core._choose = original


class Placed(nn.Module):
    """Attention with a position that turns heads or adds to scores."""

    def __init__(self, position: Position) -> None:
        super().__init__()
        self.position = position

    def forward(self, q: Tensor, k: Tensor, *, mask: Any = None) -> Tensor:
        turned_q, turned_k = self.position.rotate(q, k)
        return core.attend(turned_q, turned_k, k, mask=mask, bias=self.position.term())


def inside_attention(one: Case) -> Case:
    """A position of heads or scores with an attention around it; anything else as it is."""
    if not isinstance(one.module, Method) or not isinstance(one.module.inner, Position):
        return one
    q, *others = one.inputs
    k = others[0] if others else samples()["k"][:, :, : one.module.options["keys"]]
    return Case(one.name, Placed(one.module.inner).eval(), (q, k), one.loops, ("mask",))


def row(entry: Entry, notes: list[str]) -> tuple[str, list[str]]:
    """An entry's line of the table, and what is wrong in it; notes grow by those that it needs."""
    cells, wrong = [], []
    for name, column in COLUMNS.items():
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = column.measure(case(entry))
        except Exception as problem:  # noqa: BLE001  one mechanism that fails does not hide the others
            found = f"{type(problem).__name__}: {' '.join(str(problem).split())[:120]}"
            wrong.append(f"{entry.name}, {name}: {found}")
        if isinstance(found, str):
            if found not in notes:
                notes.append(found)
            cells.append(f"[{notes.index(found) + 1}]")
            continue
        cells.append("0" if found == 0 else f"{found:.1e}")
        if not found <= column.limit:
            wrong.append(f"{entry.name}, {name}: expected at most {column.limit:.0e}, got {found:.1e}")
    return f"| {entry.kind} | `{entry.name}` | " + " | ".join(cells) + " |", wrong


def page(rows: list[str], notes: list[str]) -> str:
    lines = [
        "# Proof",
        "",
        "The largest error of every mechanism in every form, measured by `make proof` on the mechanism's own example.",
        (
            "The reference is the mechanism in float64 with the explicit kernel; the first column holds that one "
            "against plain Python loops."
        ),
        "",
        *(f"- **{name}**: {column.what}" for name, column in COLUMNS.items()),
        "",
        f"| kind | mechanism | {' | '.join(COLUMNS)} |",
        f"|---|---|{'---|' * len(COLUMNS)}",
        *rows,
        "",
        *(f"{number}. {note}" for number, note in enumerate(notes, 1)),
        "",
        " · ".join(f"{key} {value}" for key, value in origin("cpu", 1).items()),
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="*", help="names of mechanisms")
    args = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    rows, notes, wrong = [], [], []
    for entry in cases():
        if args.only and entry.name not in args.only:
            continue
        started = time.perf_counter()
        line, problems = row(entry, notes)
        rows.append(line)
        wrong += problems
        print(f"{line} {time.perf_counter() - started:.0f} s", flush=True)
    write_atomic(args.out, page(rows, notes).encode())
    print(f"written: {args.out}", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
