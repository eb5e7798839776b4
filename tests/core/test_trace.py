"""torch.jit.trace: the first trace works, and at another length the graph is right or refuses in one line."""

import warnings

import pytest
import torch
from torch import nn

from foveal.core.pattern import random as drawing
from foveal.layers import AdaptiveSpan, DynamicConvolution, MultiHead, Performer
from foveal.mask import bigbird, causal, local, longformer, prefix, random, strided, to_global
from foveal.position import BiasTable, Buckets, CausalBuckets, Relative, Rotary, buckets

C, H, LENGTH, OTHERS = 24, 4, 11, (1, 3, 7, 13, 137, 263)


def tokens(length, batch=3):
    return torch.randn(batch, length, C, generator=torch.Generator().manual_seed(length))


def traced(layer, length=LENGTH):
    """Traced for the first time in a process: nothing is cached, and torch traces twice to compare."""
    drawing._table.cache_clear()
    buckets._bucket_of.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(layer.eval(), tokens(length, 2))


ANY_LENGTH = {
    "plain": lambda: MultiHead(C, H),
    "grouped": lambda: MultiHead(C, H, groups=2, position=Rotary()),
    "Buckets": lambda: MultiHead(C, H, position=Buckets(H)),
    "CausalBuckets": lambda: MultiHead(C, H, position=CausalBuckets(H), mask=causal),
    "Relative": lambda: MultiHead(C, H, position=Relative(C // H, 5)),
    "Relative, one table per head": lambda: MultiHead(C, H, position=Relative(C // H, 5, H), mask=causal),
    "Performer": lambda: Performer(C, H, 16),
    "causal Performer": lambda: Performer(C, H, 16, mask=causal),
    "DynamicConvolution": lambda: DynamicConvolution(C, H, 3, ahead=1),
    "AdaptiveSpan": lambda: AdaptiveSpan(C, H, 9, 2),
    **{
        repr(mask): lambda mask=mask: MultiHead(C, H, mask=mask)
        for mask in (causal, local(12), local(2), longformer(2, 1), prefix(12))
    },
    **{
        repr(mask): lambda mask=mask: MultiHead(C, H, mask=mask)
        for mask in (strided(3), to_global(12), ~causal | local(1))
    },
}


@pytest.mark.parametrize("name", ANY_LENGTH)
def test_a_graph_is_right_at_every_length(name):
    torch.manual_seed(0)
    layer = ANY_LENGTH[name]()
    graph = traced(layer)
    with torch.no_grad():
        for length in (LENGTH, *OTHERS):
            torch.testing.assert_close(graph(tokens(length)), layer(tokens(length)), atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize(
    "mask", [random(2), random(30), bigbird(1, 2), random(2) & causal, random(20, block=2)], ids=repr
)
def test_a_draw_for_one_number_of_keys_refuses_others(mask):
    layer = MultiHead(C, H, mask=mask)
    graph = traced(layer)
    with torch.no_grad():
        torch.testing.assert_close(graph(tokens(LENGTH)), layer(tokens(LENGTH)), atol=2e-6, rtol=1e-4)
        for length in OTHERS:
            with pytest.raises(torch.jit.Error) as error:
                graph(tokens(length))
            wanted = (
                f"random: expected {LENGTH} keys, as when this graph was traced, got {length}; trace it at that length"
            )
            assert str(error.value).strip().splitlines()[-1].endswith(wanted)


def test_a_refusal_is_saved_with_the_graph(tmp_path):
    frozen = torch.jit.freeze(traced(MultiHead(C, H, mask=random(2))))
    torch.jit.save(frozen, tmp_path / "graph.pt")
    graph = torch.jit.load(tmp_path / "graph.pt")
    with pytest.raises(torch.jit.Error, match="expected 11 keys"):
        graph(tokens(13))


def test_a_table_of_a_window_refuses_what_lies_outside():
    layer = MultiHead(C, H, position=BiasTable(H, 3, 5))
    graph = traced(layer)
    with torch.no_grad():
        torch.testing.assert_close(graph(tokens(7)), layer(tokens(7)), atol=2e-6, rtol=1e-4)
        with pytest.raises(RuntimeError):
            graph(tokens(137))


def test_a_causal_performer_reads_a_memory_of_any_length():
    class Reading(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Performer(C, H, 16, mask=causal)

        def forward(self, x, memory):
            return self.layer(x, memory)

    layer = Reading().eval()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        graph = torch.jit.trace(layer, (tokens(11), tokens(11)))
        for queries, keys in ((11, 11), (11, 13), (200, 11), (11, 300), (263, 137)):
            x, memory = tokens(queries), tokens(keys)
            torch.testing.assert_close(graph(x, memory), layer(x, memory), atol=2e-6, rtol=1e-4)
