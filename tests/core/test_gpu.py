"""The kernels of a GPU, held against the explicit twin in float64. Left out where there is none."""

import copy

import pytest
import torch

import foveal
from foveal.core.kernel import KERNELS
from foveal.core.request import checked
from foveal.mask import bigbird, causal, local, longformer, padding, prefix, strided
from foveal.position import BiasTable, Buckets, Relative

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

CLOSE = {torch.float32: 2e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}  # ‖y − y*‖ / ‖y*‖
MASKS = [
    None,
    causal,
    local(33),
    strided(5) | local(7),
    longformer(20, 3),
    bigbird(16, 2, block=32),
    causal | prefix(50),
    causal & padding([300, 17]),
    local(3) & ~local(3),
    padding([0, 211]),
]


def kernels():
    return {kernel.name: kernel for kernel in KERNELS}


def heads(dtype, groups, length=300, keys=300, width=64):
    torch.manual_seed(0)
    shapes = [(2, 4, length, width), (2, groups, keys, width), (2, groups, keys, width)]
    return [torch.randn(shape, device="cuda", dtype=dtype).requires_grad_() for shape in shapes]


def compare(tensors, kernel, extra=(), **options):
    y = foveal.attend(*tensors, kernel=kernel, **options)
    upstream = torch.randn_like(y)
    grads = torch.autograd.grad(y, (*tensors, *extra), upstream)
    exact = [t.detach().double().requires_grad_() for t in tensors]
    if "bias" in options:
        wide = [t.detach().double().requires_grad_() for t in extra]
        options = {**options, "bias": copy.copy(options["bias"])}
        options["bias"].tensors = tuple(wide)
    else:
        wide = []
    z = foveal.attend(*exact, kernel="explicit", **options)
    wanted = torch.autograd.grad(z, (*exact, *wide), upstream.double())
    close = CLOSE[tensors[0].dtype]
    for number, (mine, other) in enumerate(zip((y, *grads), (z, *wanted), strict=True)):
        assert mine.isfinite().all()
        # The gradient of a table sums thousands of terms that nearly cancel: the explicit twin in half precision is no
        # nearer.
        allowed = close if number < 4 else 3 * close
        assert float((mine.double() - other).detach().norm()) <= allowed * float(other.detach().norm()) + 1e-9


def compare_or_refuse(tensors, kernel, mask):
    call = checked(*tensors, mask=mask, bias=None, scale=None, dropout=0.0)
    if kernel != "auto" and kernels()[kernel].refuses(call):
        assert kernel not in ("flex", "blocks")
        with pytest.raises(foveal.FovealError, match="these can:"):
            foveal.attend(*tensors, mask=mask, kernel=kernel)
    else:
        compare(tensors, kernel, mask=mask)


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("kernel", ["cudnn", "flash", "efficient", "blocks"])
def test_a_kernel_equals_the_explicit_twin_or_refuses(kernel, mask, groups, dtype):
    compare_or_refuse(heads(dtype, groups), kernel, mask)


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_flex_and_auto_equal_the_explicit_twin(mask):
    compare_or_refuse(heads(torch.bfloat16, 2), "flex", mask)
    compare_or_refuse(heads(torch.bfloat16, 2), "auto", mask)


@pytest.mark.parametrize("kernel", ["skew", "blocks"])
@pytest.mark.parametrize("mask", [None, causal], ids=str)
@pytest.mark.parametrize(
    ("dtype", "clip"),
    [(torch.float32, 1), (torch.float32, 9), (torch.float32, 500), (torch.bfloat16, 9), (torch.bfloat16, 500)],
)
@pytest.mark.parametrize("tables", [1, 4])
def test_relative_positions(kernel, mask, clip, tables, dtype):
    position = Relative(64, clip, heads=tables).to("cuda", dtype)
    compare(heads(dtype, 2), kernel, extra=(position.table,), mask=mask, bias=position.term())


@pytest.mark.parametrize("make", [lambda: BiasTable(4, 15, 20), lambda: Buckets(4)])
@pytest.mark.parametrize("kernel", ["flex", "blocks"])
def test_other_terms(make, kernel):
    position = make().to("cuda")
    term = position.term()
    compare(heads(torch.float32, 4), kernel, extra=tuple(term.tensors), bias=term)


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("mask", [None, local(5), padding([49, 17]), "windows"], ids=str)
def test_the_table_of_a_window_in_the_kernel_that_takes_a_bias(mask, dtype):
    mask = torch.rand(2, 1, 49, 49, device="cuda") < 0.5 if mask == "windows" else mask
    position = BiasTable(4, 7, 7).to("cuda", dtype)
    torch.nn.init.normal_(position.table)
    term = position.term()
    compare(heads(dtype, 4, 49, 49, 32), "efficient", extra=tuple(term.tensors), mask=mask, bias=term)


def test_auto_takes_the_kernel_that_takes_a_bias_for_many_small_windows():
    q = torch.randn(2000, 4, 49, 32, device="cuda", dtype=torch.bfloat16)
    mask = torch.ones(2000, 1, 49, 49, device="cuda", dtype=torch.bool)
    term = BiasTable(4, 7, 7).to("cuda").term()
    assert foveal.which(q, q, q, bias=term).kernel == "efficient"
    assert foveal.which(q, q, q, mask=mask, bias=term).kernel == "efficient"


def test_auto_takes_cudnn_for_plain_and_flex_for_sparse_and_skew_for_relative():
    q, k, v = heads(torch.bfloat16, 4, 2048, 2048)
    assert foveal.which(q, k, v).kernel == "cudnn"
    assert foveal.which(q, k, v, mask=causal).kernel == "cudnn"
    assert foveal.which(q, k, v, mask=local(64)).kernel == "flex"
    assert foveal.which(q, k, v, bias=Relative(64, 9).to("cuda", torch.bfloat16).term()).kernel == "skew"


def test_queries_and_keys_of_different_number():
    for mask in (None, causal, causal.starting_at(200)):
        compare(heads(torch.bfloat16, 2, 100, 300), "auto", mask=mask)


@pytest.mark.parametrize(
    ("options", "tokens"),
    [({"mask": local(64)}, 512), ({}, 512), ({"mask": causal}, 197), ({"position": BiasTable(4, 7, 7)}, 49)],
    ids=str,
)
def test_compiled_on_the_gpu(options, tokens):
    layer = foveal.layers.MultiHead(256, 4, **options).cuda()
    x = torch.randn(2, tokens, 256, device="cuda").requires_grad_()
    torch._dynamo.reset()
    y, expected = torch.compile(layer, fullgraph=True)(x), layer(x)
    assert (y - expected).abs().max() < 1e-4
    upstream = torch.randn_like(y)
    mine, other = (torch.autograd.grad(one, x, upstream)[0] for one in (y, expected))
    assert (mine - other).abs().max() < 1e-4
