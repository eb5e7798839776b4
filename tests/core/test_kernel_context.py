"""One kernel for all that runs inside a `with`, and derivatives that a fused kernel does not have."""

import threading

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch import nn

from foveal import mask, watch, which
from foveal.core.attend import attend, kernel
from foveal.errors import FovealError
from foveal.layers import Encoder, FeedForward, MultiHead

WIDTH = 12


def heads(length=20, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, 2, length, 8, generator=generator, dtype=dtype) for _ in range(3)]


def model():
    torch.manual_seed(0)
    return nn.Sequential(MultiHead(WIDTH, 3, mask=mask.causal), Encoder(MultiHead(WIDTH, 3), FeedForward(WIDTH, 24)))


def kernels(run):
    with watch() as seen:
        run()
    return {record.kernel for record in seen.values()}


def test_it_reaches_every_layer_of_a_model_and_ends_with_the_with():
    net, x = model().eval(), torch.randn(2, 5, WIDTH)
    assert kernels(lambda: net(x)) == {"flash"}
    exact = net(x)
    for name in ("explicit", "blocks"):
        with kernel(name):
            assert kernels(lambda: net(x)) == {name}
            assert torch.allclose(net(x), exact, atol=1e-6)
            with kernel("auto"):
                assert kernels(lambda: net(x)) == {"flash"}
            assert kernels(lambda: net(x)) == {name}
    assert kernels(lambda: net(x)) == {"flash"}


def test_what_a_call_asks_for_itself_comes_first():
    with kernel("explicit"):
        assert kernels(lambda: attend(*heads(), kernel="blocks")) == {"blocks"}
        assert which(*heads()).kernel == "explicit"


def test_it_ends_after_an_error():
    with pytest.raises(FovealError, match="it has no dropout on a CPU"), kernel("flash"):
        attend(*heads(), dropout=0.5)
    with kernel("explicit"):
        pass
    assert which(*heads()).kernel == "flash"


def test_it_belongs_to_one_thread():
    found = []
    with kernel("explicit"):
        other = threading.Thread(target=lambda: found.append(which(*heads()).kernel))
        other.start()
        other.join()
    assert found == ["flash"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("explict", "no kernel is called 'explict'; the nearest is 'explicit'"), (3, "expected one of auto")],
)
def test_a_wrong_name_is_found_at_the_with(name, message):
    with pytest.raises(FovealError, match=message), kernel(name):
        pass


def test_a_kernel_that_cannot_do_it_says_so():
    with (
        kernel("flash"),
        pytest.raises(FovealError, match="kernel 'flash' cannot do this exactly: it has no dropout on a CPU"),
    ):
        attend(*heads(), dropout=0.5)


@torch.no_grad()
def test_it_works_inside_and_outside_of_a_compiled_graph():
    net, x = model().eval(), torch.randn(2, 5, WIDTH)
    torch._dynamo.reset()
    compiled = torch.compile(net, backend="eager", fullgraph=True)
    exact = net(x)
    assert torch.allclose(compiled(x), exact, atol=1e-6)
    with kernel("explicit"):
        assert torch.allclose(compiled(x), exact, atol=1e-6)


# derivatives


_, K, V = heads()


def loss(q):
    return attend(q, K, V).square().sum()


def exact_loss(q):
    return attend(q, K, V, kernel="explicit").square().sum()


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's own word on vmap over its kernel
def test_forward_mode_and_second_derivatives_of_torch_func_fall_back():
    q, way = heads()[0], heads()[1]
    for derivative in (
        lambda f: torch.func.jvp(f, (q,), (way,)),
        lambda f: (torch.func.hessian(f)(q),),
        lambda f: (torch.func.grad(lambda x: (torch.func.grad(f)(x) * way).sum())(q),),
        lambda f: (torch.func.vmap(torch.func.grad(f))(torch.stack([q, way])),),
    ):
        for got, want in zip(derivative(loss), derivative(exact_loss), strict=True):
            torch.testing.assert_close(got, want)


def test_dual_numbers_fall_back():
    q, way = heads()[0], heads()[1]
    with forward_ad.dual_level():
        got = forward_ad.unpack_dual(loss(forward_ad.make_dual(q, way))).tangent
    torch.testing.assert_close(got, torch.func.jvp(exact_loss, (q,), (way,))[1])
    assert which(*heads()).kernel == "flash"


def second(f):
    q = heads()[0].requires_grad_()
    (slope,) = torch.autograd.grad(f(q), q, create_graph=True)
    return torch.autograd.grad(slope.square().sum(), q)[0]


def test_a_second_backward_pass_works_in_the_context():
    with pytest.raises(
        RuntimeError, match="derivative"
    ):  # torch's own: a hook that gave advice would cost 20 µs per training call
        second(loss)
    with kernel("explicit"):
        torch.testing.assert_close(second(loss), second(exact_loss))


def test_a_graph_of_the_first_derivative_alone_is_no_mistake():
    q = heads()[0].requires_grad_()
    (slope,) = torch.autograd.grad(loss(q), q, create_graph=True)
    (want,) = torch.autograd.grad(exact_loss(q), q)
    torch.testing.assert_close(slope, want)
