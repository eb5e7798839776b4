"""A graph of torch.compile is no export: there attention takes a fused kernel."""

import pytest
import torch

from foveal.core.trace import is_exporting


class Asks(torch.nn.Module):
    def forward(self, x):
        return x + 1 if is_exporting() else x


def test_a_graph_of_torch_compile_is_none():  # of torch's own function, before torch 2.13 it is
    x = torch.zeros(2)
    assert not is_exporting()
    assert torch.equal(torch.compile(Asks(), fullgraph=True, backend="eager")(x), x)


@pytest.mark.parametrize("strict", [False, True])
def test_an_export_is_one(strict):
    x = torch.zeros(2)
    graph = torch.export.export(Asks(), (x,), strict=strict).module()
    assert torch.equal(graph(x), x + 1)
