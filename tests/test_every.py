"""What holds for every mechanism there is. A new file in a room is found by itself, and is held to all of this."""

import ast
import copy
import importlib.util
import io
from pathlib import Path

import pytest
import torch
from case import Case, as_tensors, case, cases, cast, error, run_by_onnx, tensors
from grid import one_of_each

from foveal.mask import padding

ENTRIES = {entry.name: entry for entry in cases()}


@pytest.fixture(params=sorted(ENTRIES))
def one(request) -> Case:
    torch.manual_seed(0)
    return case(ENTRIES[request.param])


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_it_has_an_oracle_of_plain_loops(name):
    stem = ENTRIES[name].module.rpartition(".")[2]
    found = importlib.util.find_spec(f"oracle.{stem}")
    assert found is not None, f"tests/oracle/{stem}.py is missing"
    source = Path(found.origin).read_text(encoding="utf-8")
    assert imported(source) <= {"math", "cmath", "random", "itertools", "oracle"}
    for word in ("foveal", "torch", "numpy", "__import__"):
        assert word not in source


def imported(source: str) -> set[str]:
    """The first names of all modules that a source imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            found.add(str(node.module).partition(".")[0])
        elif isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
    return found


def test_it_equals_its_oracle(one):
    module, inputs = one.double()
    with torch.no_grad():
        y = module(*inputs)
    assert error(y, as_tensors(one.loops(), y)) < 1e-9


@torch.no_grad()
def test_its_dropout_is_silent_in_evaluation_and_drops_in_training(one):
    exact = one.module(*one.inputs)
    dropping = [part for part in one.module.modules() if give_dropout(part)]
    assert error(one.module(*one.inputs), exact) == 0
    one.module.train()
    for part in one.module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):  # it takes the mean of the batch in training, as it should
            part.eval()
    if dropping:
        assert error(one.module(*one.inputs), exact) > 0
    else:
        assert error(one.module(*one.inputs), exact) == 0


def give_dropout(part: torch.nn.Module) -> bool:
    """Let a part drop half; whether it has such a thing at all."""
    for name in ("p", "dropout"):
        if isinstance(getattr(part, name, None), float):
            setattr(part, name, 0.5)
            return True
    return False


@torch.no_grad()
def test_what_a_mask_hides_is_not_seen(one):
    if not one.masks:
        pytest.skip("it takes no mask")
    module, inputs = one.double()
    real = 2 if inputs[0].dim() == 5 else 4  # of each sample's frames or tokens; the others change
    changed = [with_other_tokens(x, real) if isinstance(x, torch.Tensor) and x.dim() > 2 else x for x in inputs]
    masks = dict.fromkeys(one.masks, padding([real] * len(inputs[0])))

    def seen(tokens, **masks):
        return [t[:, :, :real] if t.dim() == 4 else t[:, :real] for t in tensors(module(*tokens, **masks))]

    assert error(seen(changed, **masks), seen(inputs, **masks)) < 1e-12
    assert error(seen(changed), seen(inputs)) > 1e-3


def with_other_tokens(x: torch.Tensor, first: int) -> torch.Tensor:
    """Tokens (B, N, C), heads (B, H, N, D) or frames (B, T, C, h, w) with everything from the first on drawn anew."""
    other = torch.randn(x.shape, generator=torch.Generator().manual_seed(4), dtype=x.dtype)
    axis = 1 if x.dim() == 5 else -2
    return torch.cat([x.narrow(axis, 0, first), other.narrow(axis, first, x.shape[axis] - first)], axis)


def test_it_runs_in_half_precision_and_stays_near(one):
    module = copy.deepcopy(one.module).bfloat16()
    inputs = cast(one.inputs, torch.bfloat16)
    exact = copy.deepcopy(module).double()
    with torch.no_grad():
        y = module(*inputs)
        reference = exact(*cast(inputs, torch.float64))
    assert all(t.dtype == torch.bfloat16 for t in tensors(y))
    largest = max(float(t.abs().max()) for t in tensors(reference))
    assert error(y, reference) <= 0.02 * max(largest, 1)


@torch.no_grad()
def test_its_weights_are_saved_and_loaded(one):
    exact = one.module(*one.inputs)
    file = io.BytesIO()
    torch.save(one.module.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(one.module)
    for index, weight in enumerate(other.state_dict().values()):
        if weight.is_floating_point():  # the number of batches seen is none; a variance stays above 0
            weight.add_(torch.rand(weight.shape, generator=torch.Generator().manual_seed(index)))
    if other.state_dict():
        assert error(other(*one.inputs), exact) > 0
    other.load_state_dict(torch.load(file, weights_only=True))
    assert error(other(*one.inputs), exact) == 0


@torch.no_grad()
def test_it_compiles_without_a_graph_break(one):
    torch._dynamo.reset()
    compiled = torch.compile(one.module, backend="eager", fullgraph=True)
    assert error(compiled(*one.inputs), one.module(*one.inputs)) < 1e-5


# a second each
@pytest.mark.parametrize("one", one_of_each(sorted(ENTRIES), lambda name: ENTRIES[name].kind), indirect=True)
@pytest.mark.filterwarnings("ignore")  # those of the exporter about itself
@torch.no_grad()
def test_it_is_exported_and_onnxruntime_agrees(one):
    assert error(run_by_onnx(one), one.module(*one.inputs)) < 1e-5


def test_its_gradients_are_right_and_reach_every_weight(one):
    module, inputs = one.double()
    inputs = [x.requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs]
    loss = mixed(module(*inputs))
    loss.backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, f"{name} gets no gradient"
        assert parameter.grad.isfinite().all(), f"{name}'s gradient is not finite"
        assert parameter.grad.any(), f"{name}'s gradient is 0"
    learning = [x for x in (*module.parameters(), *inputs) if isinstance(x, torch.Tensor) and x.grad is not None]
    assert learning
    # All at once a small step along some direction d: (L(x + hd) − L(x − hd))/2h = ∇L·d.
    generator, step = torch.Generator().manual_seed(2), 1e-6
    ways = [torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in learning]
    slope = sum(float((x.grad * way).sum()) for x, way in zip(learning, ways, strict=True))
    with torch.no_grad():
        ahead, behind = (shifted(module, inputs, learning, ways, by) for by in (step, -step))
    assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=1e-6)


def shifted(module, inputs, learning, ways, by) -> float:
    """The loss with everything that learns moved by so much along its way; all is put back."""
    for x, way in zip(learning, ways, strict=True):
        x.add_(way, alpha=by)
    loss = float(mixed(module(*inputs)))
    for x, way in zip(learning, ways, strict=True):
        x.sub_(way, alpha=by)
    return loss


def mixed(output) -> torch.Tensor:
    """A number that depends on all of an output: a sum of squares would not see what a LayerNorm or a softmax holds
    fixed.
    """
    generator = torch.Generator().manual_seed(3)
    return sum((t * torch.randn(t.shape, generator=generator, dtype=t.dtype)).sum() for t in tensors(output))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_torch_script_traces_it(one):
    with torch.no_grad():
        expected = one.module(*one.inputs)
        traced = torch.jit.trace(one.module, one.inputs, check_trace=False, strict=False)
        assert error(traced(*one.inputs), expected) < 1e-5
