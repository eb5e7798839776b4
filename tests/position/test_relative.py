"""Shaw's relative term: every way of computing a tile, through the kernels, against loops and wav2vec2-BERT."""

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.relative import relative
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import _apply_relative_key_position_encoding

from foveal.core import mask
from foveal.core.attend import attend
from foveal.core.relative import RelativeTerm
from foveal.core.term import Sum, Written
from foveal.errors import FovealError
from foveal.position.relative import Relative

DOUBLE = torch.float64


def by_loops(q, table, rows, columns, scale):
    """(B, H, n, m) from the oracle, with one table for all heads or one for each."""
    tables = table.detach().expand(q.shape[1], -1, -1).tolist()
    samples = q.detach().tolist()
    scores = [[relative(head, tables[h], rows, columns, scale) for h, head in enumerate(sample)] for sample in samples]
    return torch.tensor(scores, dtype=DOUBLE)


def test_by_hand():
    # Two channels, K = 1: R₋₁ = (1, 0), R₀ = (0, 1), R₁ = (2, 2); q₀ = (1, 0), q₁ = (0, 3). Distances i − j: 0 −1 −2 /
    # 1 0 −1.
    position = Relative(2, 1).double()
    with torch.no_grad():
        position.table.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]))
    q = torch.tensor([[1.0, 0.0], [0.0, 3.0]], dtype=DOUBLE).view(1, 1, 2, 2)
    want = torch.tensor([[0.0, 1.0, 1.0], [6.0, 3.0, 0.0]], dtype=DOUBLE) / math.sqrt(2)
    torch.testing.assert_close(position.bias(q, keys=3)[0, 0].detach(), want)


TILES = {
    "consecutive": (range(5, 12), range(3, 16)),
    "one row": (range(6, 7), range(3, 16)),
    "one pair": (range(6, 7), range(7, 8)),
    "strided": (range(1, 22, 3), range(2, 30, 3)),
    "strided columns": (range(5, 12), range(2, 30, 3)),
    "gathered": (range(5, 12), [0, 1, 7, 8, 9, 50, 90]),
    "backwards": (range(12, 5, -1), range(16, 3, -1)),
    "in no order": ([4, 2, 9, 3, 3], [7, 1, 30, 2]),
    "no row": ([], range(3)),
    "no column": (range(3), []),
}


@pytest.mark.parametrize("tile", TILES.values(), ids=TILES.keys())
@pytest.mark.parametrize("reach", [0, 3, 100])
@pytest.mark.parametrize("tables", [1, 3])
def test_any_tile_equals_the_oracle(tile, reach, tables):
    rows, columns = (torch.tensor(list(side), dtype=torch.long) for side in tile)
    position = Relative(5, reach, heads=tables).double()
    q = torch.randn(2, 3, len(rows), 5, dtype=DOUBLE)
    term = position.term(query_start=4)
    want = by_loops(q, position.table, (rows + 4).tolist(), columns.tolist(), 5**-0.5)
    got = term.scores(q, rows, columns, *term.tensors)
    torch.testing.assert_close(got.detach(), want.view(got.shape), atol=1e-9, rtol=0)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=7),
    st.lists(st.integers(0, 40), min_size=1, max_size=7),
    st.integers(0, 50),
)
def test_any_positions_equal_the_oracle(rows, columns, reach):
    position = Relative(3, reach, scale=0.7).double()
    q = torch.randn(1, 2, len(rows), 3, dtype=DOUBLE)
    term = position.term()
    got = term.scores(q, torch.tensor(rows), torch.tensor(columns), *term.tensors)
    torch.testing.assert_close(got.detach(), by_loops(q, position.table, rows, columns, 0.7), atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    "tile", [TILES["consecutive"], TILES["strided"], TILES["gathered"]], ids=["skewed", "picked", "pair by pair"]
)
def test_gradients_of_each_way(tile):
    rows, columns = (torch.tensor(list(side)) for side in tile)
    position = Relative(2, 100).double()
    q = torch.randn(1, 2, len(rows), 2, dtype=DOUBLE, requires_grad=True)
    term = position.term()
    torch.autograd.gradcheck(lambda q, table: term.scores(q, rows, columns, table), (q, position.table))


class Largest(TorchDispatchMode):
    """Remembers the size of the largest tensor that any operation makes."""

    size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, torch.Tensor) and not function.is_view:
                self.size = max(self.size, tensor.numel())
        return made


@pytest.mark.parametrize("spread", [1, 3, 997], ids=["consecutive", "strided", "scattered"])
def test_what_a_tile_needs_does_not_grow_with_the_table(spread):
    position, q = Relative(2, 100_000).requires_grad_(False), torch.randn(3, 7, 11, 2)
    rows = torch.arange(11) * (3 if spread == 3 else 1)
    columns = torch.arange(53) * spread
    term = position.term()
    with Largest() as largest:
        term.scores(q, rows, columns, *term.tensors)
    assert largest.size <= 3 * 7 * 11 * (11 + 53)  # the tile; n·m·D is less here


def test_equals_wav2vec2_bert_whose_distance_is_j_minus_i():
    position = Relative(10, 4)
    embedding = nn.Embedding.from_pretrained(position.table[0].detach().flip(0))
    theirs = SimpleNamespace(
        left_max_position_embeddings=4, right_max_position_embeddings=4, distance_embedding=embedding, scaling=10**-0.5
    )
    q, k = torch.randn(2, 3, 11, 10), torch.randn(2, 3, 13, 10)
    _, want = _apply_relative_key_position_encoding(theirs, q, k)
    torch.testing.assert_close(position.bias(q, keys=13), want, atol=1e-5, rtol=1e-5)


def through(kernel, position, tensors, which):
    """Output and gradients of q, k, v and the table, by one kernel."""
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    position.table.grad = None
    y = attend(*leaves, mask=which, bias=position.term(2), kernel=kernel)
    y.mul(torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)).sum().backward()
    return [y, *(leaf.grad for leaf in leaves), position.table.grad]


MASKS = {
    "none": None,
    "causal": mask.causal,
    "local": mask.local(5),
    "strided": mask.strided(3),
    "bigbird": mask.bigbird(2, 3, 1),
    "local or strided": mask.local(2) | mask.strided(7),
    "padding": mask.padding([71, 0]),
}


@pytest.mark.parametrize("which", MASKS.values(), ids=MASKS.keys())
@pytest.mark.parametrize("reach", [7, 80])
def test_blocks_equal_the_explicit_twin_with_their_gradients(which, reach):
    torch.manual_seed(0)
    tensors = [torch.randn(2, heads, length, 5, dtype=DOUBLE) for heads, length in ((4, 67), (2, 71), (2, 71))]
    position = Relative(5, reach).double()
    for got, want in zip(
        through("blocks", position, tensors, which), through("explicit", position, tensors, which), strict=True
    ):
        torch.testing.assert_close(got, want, atol=1e-9, rtol=0)


def test_explicit_equals_the_formula():
    q, k, v = (
        torch.randn(2, 3, 11, 5, dtype=DOUBLE),
        torch.randn(2, 3, 7, 5, dtype=DOUBLE),
        torch.randn(2, 3, 7, 5, dtype=DOUBLE),
    )
    position = Relative(5, 3).double()
    term = by_loops(q, position.table, range(11), range(7), 1.0)
    alpha = torch.softmax((torch.einsum("bhid,bhjd->bhij", q, k) + term) / math.sqrt(5), -1)
    got = attend(q, k, v, bias=position.term(), kernel="explicit")
    torch.testing.assert_close(got.detach(), torch.einsum("bhij,bhjd->bhid", alpha, v), atol=1e-9, rtol=0)


def test_later_queries_equal_the_rows_of_the_whole():
    q, position = torch.randn(2, 3, 11, 5), Relative(5, 4)
    whole = position.bias(q, keys=11)
    torch.testing.assert_close(position.bias(q[:, :, 6:], keys=11, query_start=6), whole[:, :, 6:], atol=1e-6, rtol=0)


def test_adds_to_other_terms():
    q, k, v = (torch.randn(2, 3, 11, 5, dtype=DOUBLE) for _ in range(3))
    position, bias = Relative(5, 4).double(), torch.randn(11, 11, dtype=DOUBLE)
    both = attend(q, k, v, bias=Sum(Written(bias), position.term()), kernel="blocks")
    torch.testing.assert_close(
        both, attend(q, k, v, bias=position.bias(q, 11) + bias, kernel="explicit"), atol=1e-9, rtol=0
    )


@pytest.mark.parametrize("tables", [1, 3])
@pytest.mark.filterwarnings("ignore:.*without torch.compile")
def test_the_form_for_flex_attention(tables):
    q, k, v = torch.randn(2, 3, 11, 16), torch.randn(2, 3, 7, 16), torch.randn(2, 3, 7, 16)
    position = Relative(16, 3, heads=tables).requires_grad_(False)
    with torch.no_grad():
        got = flex_attention(q, k, v, score_mod=position.term(2).score_mod(q))
    torch.testing.assert_close(got, attend(q, k, v, bias=position.term(2), kernel="explicit"), atol=1e-5, rtol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("kernel", ["flex", "blocks"])
def test_on_a_gpu_every_kernel_equals_the_explicit_twin(kernel):
    position = Relative(32, 100).cuda()
    table, found = position.table, []
    for name in (kernel, "explicit"):
        torch.manual_seed(0)
        leaves = [torch.randn(2, heads, 300, 32, device="cuda", requires_grad=True) for heads in (4, 2, 2)]
        y = attend(*leaves, mask=mask.causal, bias=position.term(), kernel=name)
        found.append([y, *torch.autograd.grad(y.square().sum(), [*leaves, table])])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, atol=0.02, rtol=0.02)


class Attention(nn.Module):
    def __init__(self, position):
        super().__init__()
        self.position = position

    def forward(self, q, k, v):
        return attend(q, k, v, bias=self.position.term())


def test_compiles_and_exports():
    layer = Attention(Relative(8, 3))
    q, k, v = torch.randn(2, 6, 11, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 8)
    want = layer(q, k, v)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q, k, v), want)
    torch.testing.assert_close(torch.export.export(layer, (q, k, v)).module()(q, k, v), want)
    grads = [torch.autograd.grad(run(q, k, v).square().sum(), layer.position.table)[0] for run in (layer, compiled)]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("kernel", ["explicit", "blocks"])
def test_bfloat16(kernel):
    q, k, v = (torch.randn(2, 3, 11, 8, dtype=torch.bfloat16) for _ in range(3))
    position = Relative(8, 3).bfloat16()
    got = attend(q, k, v, bias=position.term(), kernel=kernel)
    got.sum().backward()
    assert got.dtype == position.table.grad.dtype == torch.bfloat16
    wide = Relative(8, 3).double()
    wide.load_state_dict(position.state_dict())
    want = attend(q.double(), k.double(), v.double(), bias=wide.term(), kernel="explicit")
    torch.testing.assert_close(got.double(), want, atol=0.02, rtol=0.02)


def test_bad_input():
    with pytest.raises(FovealError, match="Relative's width: expected at least 1"):
        Relative(0, 3)
    with pytest.raises(FovealError, match="max_distance: expected at least 0, got -1"):
        Relative(8, -1)
    with pytest.raises(FovealError, match="Relative's heads: expected at least 1"):
        Relative(8, 3, heads=0)
    with pytest.raises(FovealError, match="scale: expected a finite number, got inf"):
        Relative(8, 3, scale=math.inf)
    q = torch.randn(2, 3, 7, 5)
    with pytest.raises(FovealError, match="expected 8 wide, got 5; give Relative the width of one head"):
        attend(q, q, q, bias=Relative(8, 3).term())
    with pytest.raises(FovealError, match="expected 1 for all heads, or 3, got 2"):
        attend(q, q, q, bias=Relative(5, 3, heads=2).term())
    assert isinstance(Relative(5, 3).term(), RelativeTerm)
