"""Which kernel runs, and why; and attention inside torch.compile and torch.export."""

import copy
import pickle

import pytest
import torch
from core.heads import heads, near
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend

from foveal import attend, which
from foveal.core import attend as core
from foveal.core import kernel as kernels
from foveal.core.kernel import KERNELS
from foveal.core.request import checked
from foveal.core.term import Term
from foveal.errors import FovealError
from foveal.mask import bigbird, causal, local, longformer, padding, random, strided, window
from foveal.position import BiasTable

NAMES = [kernel.name for kernel in KERNELS] + ["explicit"]


class Slope(Term):
    def scores(self, q, rows, columns, *tensors):
        return (columns - rows[:, None]).to(q.dtype)


@pytest.fixture(autouse=True)
def forget():
    core._chosen.clear()
    torch._dynamo.reset()


# which


@pytest.mark.parametrize(
    ("options", "kernel"),
    [
        ({}, "flash"),
        ({"mask": causal}, "flash"),
        ({"mask": copy.deepcopy(causal)}, "flash"),
        ({"mask": pickle.loads(pickle.dumps(causal))}, "flash"),
        ({"mask": local(5000)}, "flash"),  # it keeps everything, so it is no mask
        ({"mask": local(5)}, "blocks"),
        ({"mask": causal & padding([3])}, "blocks"),
        ({"mask": strided(4) | local(2)}, "blocks"),
        ({"bias": torch.zeros(2048, 2048)}, "blocks"),
        ({"bias": torch.zeros(2048, 2048, requires_grad=True)}, "explicit"),
        ({"bias": Slope()}, "blocks"),
        ({"dropout": 0.1}, "blocks"),
    ],
)
def test_a_long_sequence_on_a_cpu_takes(options, kernel):
    tensors = heads(2048, 2048, batch=1, count=1, dtype=torch.float32)
    choice = which(*tensors, **options)
    assert choice.kernel == kernel
    assert sorted([kernel, *choice.others]) == sorted(NAMES)
    assert all(choice.others.values())


@pytest.mark.parametrize("mask", [local(5), strided(4) | local(2), random(2), causal & local(3), ~causal], ids=str)
def test_a_short_sequence_takes_a_dense_mask(mask):
    assert which(*heads(37, 37), mask=mask).kernel == "flash"


def test_which_says_why_in_words():
    choice = which(*heads(dtype=torch.float32), mask=local(3))
    assert choice.why == "the fastest exact kernel for local(radius=3) on cpu, torch.float32"
    assert choice.others["cudnn"] == "it needs an NVIDIA GPU"
    assert choice.others["explicit"] == "it stores all N × M weights"
    assert str(choice).startswith("flash: the fastest exact kernel")
    assert all(f"\n  not {name}: {reason}" in str(choice) for name, reason in choice.others.items())
    assert which(*heads(), mask=local(90)).why.startswith("the fastest exact kernel for no mask")


def test_a_small_table_of_biases_is_written_out_where_it_does_not_learn():
    tensors = [x.detach() for x in heads(20, 20, batch=5, count=3, dtype=torch.float32)]
    table = BiasTable(3, 4, 5)
    assert which(*tensors, bias=table.term()).kernel == "blocks"
    assert which(*tensors, bias=table.requires_grad_(False).term()).kernel == "flash"
    large = [x.detach() for x in heads(200, 200, batch=1, count=3, dtype=torch.float32)]
    assert which(*large, bias=BiasTable(3, 10, 20).requires_grad_(False).term()).kernel == "blocks"


def test_what_ran_before_does_not_change_the_choice():
    tensors = [x.detach() for x in heads(300, 300, batch=1)]
    fixed, learned = torch.zeros(300, 300), torch.zeros(300, 300, requires_grad=True)
    alone = which(*tensors, bias=fixed).kernel, which(*tensors, bias=learned).kernel
    core._chosen.clear()
    with torch.no_grad():
        which(*tensors, bias=learned)
    assert (which(*tensors, bias=fixed).kernel, which(*tensors, bias=learned).kernel) == alone
    assert alone[1] == "explicit"


def test_a_learned_bias_learns_whatever_ran_before():
    q, k, v = (x.detach() for x in heads(13, 13))
    bias = torch.zeros(13, 13, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        attend(q, k, v, bias=bias)
    attend(q, k, v, bias=bias.detach())
    assert torch.autograd.grad(attend(q, k, v, bias=bias).square().sum(), bias)[0].abs().max() > 0


def test_choices_are_remembered_but_not_without_end(monkeypatch):
    monkeypatch.setattr(core, "REMEMBERED", 5)
    for length in range(1, 20):
        attend(*heads(length, length))
    assert 1 <= len(core._chosen) <= 5


# names


def test_a_kernel_that_cannot_says_so_and_which_can():
    tensors = heads(7, 7)
    with pytest.raises(
        FovealError, match=r"kernel 'flex' cannot do this exactly: .* CPU.*; these can: flash, blocks, explicit$"
    ):
        attend(*tensors, kernel="flex")
    with pytest.raises(
        FovealError,
        match=r"kernel 'flash' cannot do this exactly: it has no dropout on a CPU; these can: blocks, explicit$",
    ):
        attend(*tensors, dropout=0.1, kernel="flash")
    learned = torch.zeros(7, 7, dtype=torch.float64, requires_grad=True)
    for name in ("flash", "blocks"):
        with pytest.raises(FovealError, match=rf"kernel '{name}' cannot do this exactly: .*; these can: explicit$"):
            attend(*tensors, bias=learned, kernel=name)
    with pytest.raises(FovealError, match=r"it cannot compute Slope's term; these can: blocks, explicit$"):
        attend(*tensors, bias=Slope(), kernel="flash")


@pytest.mark.parametrize(
    ("wrong", "nearest"), [("flsh", "flash"), ("Blocks", "blocks"), ("explict", "explicit"), ("", None), ("math", None)]
)
def test_an_unknown_kernel_is_answered_with_the_nearest(wrong, nearest):
    with pytest.raises(FovealError, match=f"no kernel is called {wrong!r}") as caught:
        attend(*heads(3, 3), kernel=wrong)
    assert nearest is None or f"the nearest is {nearest!r}" in str(caught.value)
    assert all(name in str(caught.value) for name in ["auto", *NAMES])


# torch.compile


MASKS = [
    None,
    causal,
    local(3),
    strided(5) | local(2),
    random(2, seed=31),
    bigbird(1, 2, 1),
    longformer(2, 1),
    window(1, 13, size=3),
    causal & padding([9, 0]),
]


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_it_compiles_into_one_graph_with_its_gradients(mask):
    tensors = heads(13, 13, count=4, groups=2)
    compiled = torch.compile(lambda *x: attend(*x, mask=mask), fullgraph=True, backend="aot_eager")
    y, expected = compiled(*tensors), attend(*tensors, mask=mask)
    near([y, *torch.autograd.grad(y.sum(), tensors)], [expected, *torch.autograd.grad(expected.sum(), tensors)])


@pytest.mark.parametrize("mask", [None, causal, local(3), random(2, seed=31), causal & padding([9, 0])], ids=str)
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_compiled_attention_takes_other_lengths(mask, dynamic):
    compiled = torch.compile(lambda *x: attend(*x, mask=mask), fullgraph=True, backend="eager", dynamic=dynamic)
    for length in (13, 17, 29):
        tensors = heads(length, length)
        near([compiled(*tensors)], [attend(*tensors, mask=mask)])


def test_options_go_into_the_graph():
    bias = torch.randn(13, 13, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    tensors = heads(13, 13)

    def run(*x, start=0):
        y, alpha = attend(*x, mask=causal.starting_at(start), bias=bias, scale=0.3, weights=True)
        return y + alpha.sum(-1, keepdim=True)

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    for start in (0, 3, 5):
        y, expected = compiled(*tensors, start=start), run(*tensors, start=start)
        near(
            [y, *torch.autograd.grad(y.sum(), (*tensors, bias))],
            [expected, *torch.autograd.grad(expected.sum(), (*tensors, bias))],
        )


def test_dropout_works_in_a_graph():
    compiled = torch.compile(lambda *x: attend(*x, mask=local(3), dropout=0.5), fullgraph=True, backend="aot_eager")
    tensors = heads(13, 13)
    assert not torch.equal(compiled(*tensors), compiled(*tensors))


@pytest.mark.parametrize("keys", [13, 7])
def test_attention_on_a_gpu_is_one_graph(keys):
    # Tensors without memory say that they are on a GPU: the trace asks what it would ask there.
    with FakeTensorMode():
        q, k = (torch.empty(2, 4, length, 16, device="cuda", dtype=torch.bfloat16) for length in (13, keys))
        compiled = torch.compile(lambda *x: attend(*x), fullgraph=True, backend="eager")
        assert compiled(q, k, k).shape == q.shape


def test_a_gpu_s_kernel_is_given_the_biases_of_a_query_side_by_side(monkeypatch):
    # torch refuses others: "All fused kernels require the last dimension of the input to have stride 1".
    given = []
    monkeypatch.setattr(kernels, "_torchs_choice", lambda call, mask: SDPBackend.EFFICIENT_ATTENTION)
    monkeypatch.setattr(kernels, "_sdpa", lambda call, mask: given.append(mask))
    q, term = torch.randn(2, 3, 49, 8), BiasTable(3, 7, 7).term()
    assert term.written(q, 49).stride(3) != 1
    kernels._on_backend(SDPBackend.EFFICIENT_ATTENTION)(checked_call(q, term))
    assert given[0].stride(3) == 1
    assert torch.equal(given[0], term.written(q, 49))


def checked_call(q, term):
    return checked(q, q, q, mask=None, bias=term, scale=None, dropout=0.0)


@pytest.mark.slow
def test_it_compiles_with_inductor():
    tensors = heads(29, 29, dtype=torch.float32)
    compiled = torch.compile(lambda *x: attend(*x, mask=causal & local(3)), fullgraph=True)
    near([compiled(*tensors)], [attend(*tensors, mask=causal & local(3))], 1e-5)


# torch.export


class Attention(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def forward(self, q, k, v):
        return attend(q, k, v, mask=self.mask)


@pytest.mark.parametrize("mask", [None, causal, strided(5) | local(2), random(2, seed=77)], ids=str)
def test_it_exports(mask):
    tensors = [x.detach() for x in heads(13, 13, count=4, groups=2)]
    program = torch.export.export(Attention(mask), tuple(tensors))
    assert not any("scaled_dot_product" in str(node.target) for node in program.graph.nodes), (
        "plain operations, which every exporter knows"
    )
    near([program.module()(*tensors)], [attend(*tensors, mask=mask)])
    assert type(attend(*tensors, mask=mask, kernel="blocks")) is torch.Tensor, "the trace left nothing behind"


@pytest.mark.parametrize("mask", [None, causal, local(3) & causal, strided(5) | local(2)], ids=str)
def test_it_exports_with_a_dynamic_batch_and_length(mask):
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=4096)
    tensors = [x.detach() for x in heads(13, 13)]
    exported = torch.export.export(
        Attention(mask), tuple(tensors), dynamic_shapes=({0: batch, 2: length},) * 3
    ).module()
    for samples, tokens in ((1, 2), (3, 29)):
        other = [x.detach() for x in heads(tokens, tokens, batch=samples)]
        near([exported(*other)], [attend(*other, mask=mask)])


def test_three_axes_are_refused_as_they_may_be_samples_or_heads():
    tensors = heads(4, 4, batch=3, count=3)
    for options in ({"mask": torch.ones(3, 4, 4, dtype=torch.bool)}, {"bias": torch.zeros(3, 4, 4)}):
        with pytest.raises(FovealError, match=r"expected \(N, M\) or \(B, H, N, M\), got \(3, 4, 4\)"):
            attend(*tensors, **options)


def test_flash_is_not_reported_where_torch_would_store_all_scores():
    q, k, v = heads(300, 300, width=8, value_width=4)
    assert which(q, k, v, mask=causal).kernel == "blocks"
    q, k, v = (x.detach().mT.contiguous().mT for x in heads(300, 300, width=8))
    assert which(q, k, v).kernel == "blocks"
    assert which(*(x.contiguous() for x in (q, k, v))).kernel == "flash"
    assert torch._fused_sdp_choice(q.contiguous(), k.contiguous(), v.contiguous()) == 1


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("length", [30, 300])
def test_torch_func_goes_through(length):
    q, k, v = (x.detach() for x in heads(length, length))
    mask = local(3) | strided(50)
    expected = attend(q, k, v, mask=mask)
    near([torch.func.vmap(lambda *x: attend(*(y[None] for y in x), mask=mask)[0])(q, k, v)], [expected])
    gradient = torch.func.grad(lambda q: attend(q, k, v, mask=mask).square().sum())(q)
    leaf = q.clone().requires_grad_()
    attend(leaf, k, v, mask=mask).square().sum().backward()
    near([gradient], [leaf.grad])
