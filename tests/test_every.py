"""What holds for every mechanism there is. A new file in a room is found by itself, and is held to all of this."""

import copy
import importlib.util
import io

import pytest
import torch
from case import Case, as_tensors, case, cases, cast, error, tensors

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
    source = open(found.origin, encoding="utf-8").read()
    assert "foveal" not in source.replace("foveal's", "")
    assert "torch" not in source
    assert "numpy" not in source


def test_it_equals_its_oracle(one):
    module, inputs = one.double()
    with torch.no_grad():
        y = module(*inputs)
    assert error(y, as_tensors(one.loops(), y)) < 1e-9


def test_it_gives_the_same_answer_twice_in_evaluation(one):
    module = one.module.eval()
    with torch.no_grad():
        assert error(module(*one.inputs), module(*one.inputs)) == 0


def test_it_runs_in_half_precision_and_stays_near(one):
    module = copy.deepcopy(one.module).bfloat16()
    inputs = cast(one.inputs, torch.bfloat16)
    exact = copy.deepcopy(module).double()
    with torch.no_grad():
        y = module(*inputs)
        reference = exact(*cast(inputs, torch.float64))
    assert all(t.dtype == torch.bfloat16 or t.dtype == torch.float32 for t in tensors(y))
    largest = max(float(t.abs().max()) for t in tensors(reference))
    assert error(y, reference) <= 0.05 * max(largest, 1)


def test_its_weights_are_saved_and_loaded(one):
    file = io.BytesIO()
    torch.save(one.module.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(one.module)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    other.load_state_dict(torch.load(file, weights_only=True))
    with torch.no_grad():
        assert error(other(*one.inputs), one.module(*one.inputs)) == 0


def test_it_compiles_without_a_graph_break(one):
    torch._dynamo.reset()
    with torch.no_grad():
        expected = one.module(*one.inputs)
        compiled = torch.compile(one.module, backend="eager", fullgraph=True)
        assert error(compiled(*one.inputs), expected) < 1e-5


def test_its_gradients_are_finite_and_reach_every_weight(one):
    module = one.module
    inputs = [x.clone().requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in one.inputs]
    y = sum(t.float().square().sum() for t in tensors(module(*inputs)))
    if not y.requires_grad:
        pytest.skip("nothing to learn here")
    y.backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, f"{name} gets no gradient"
        assert parameter.grad.isfinite().all()
    for x in inputs:
        if isinstance(x, torch.Tensor) and x.grad is not None:
            assert x.grad.isfinite().all()
