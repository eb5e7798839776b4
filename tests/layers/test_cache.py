import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.cache import cache as joined

from foveal.core.attend import attend
from foveal.errors import FovealError
from foveal.layers.cache import Cache, Memory


def heads(count, seed=1, batch=2, groups=3, width=5):
    return torch.randn(batch, groups, count, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_by_hand():
    cache = Cache(1, 1, 4, 1)
    k, v = cache.append(torch.tensor([[[[1.0], [2.0]]]]), torch.tensor([[[[5.0], [6.0]]]]))
    assert (k.flatten().tolist(), v.flatten().tolist(), cache.length) == ([1, 2], [5, 6], 2)
    k, v = cache.append(torch.tensor([[[[3.0]]]]), torch.tensor([[[[7.0]]]]))
    assert (k.flatten().tolist(), v.flatten().tolist(), cache.length) == ([1, 2, 3], [5, 6, 7], 3)


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.integers(1, 3), min_size=1, max_size=5))
def test_it_holds_what_joining_everything_would_give(steps):
    cache = Cache(2, 3, 17, 5, dtype=torch.float64)
    k, v = heads(sum(steps)), heads(sum(steps), seed=2)
    expected = [joined([part.transpose(0, 2).tolist() for part in whole.split(steps, 2)]) for whole in (k, v)]
    for step, (k_part, v_part) in enumerate(zip(k.split(steps, 2), v.split(steps, 2), strict=True)):
        k_view, v_view = cache.append(k_part, v_part)
        assert k_view.transpose(0, 2).tolist() == expected[0][step]
        assert v_view.transpose(0, 2).tolist() == expected[1][step]
    assert cache.length == sum(steps)


def test_nothing_is_copied_but_the_new_tokens():
    cache = Cache(2, 3, 7, 5, dtype=torch.float64)
    first, _ = cache.append(heads(2), heads(2))
    second, values = cache.append(heads(1), heads(1))
    assert first.data_ptr() == second.data_ptr() == cache.k.data_ptr()
    assert values.data_ptr() == cache.v.data_ptr()
    assert second.shape == (2, 3, 3, 5)


def test_reset_forgets_and_keeps_the_room():
    cache = Cache(2, 3, 7, 5, dtype=torch.float64)
    room = cache.k.data_ptr()
    cache.append(heads(7), heads(7))
    cache.reset()
    assert cache.length == 0
    k, _ = cache.append(heads(4, seed=3), heads(4, seed=3))
    assert torch.equal(k, heads(4, seed=3))
    assert k.data_ptr() == room


def test_reorder_follows_the_beams():
    cache = Cache(4, 3, 7, 5, dtype=torch.float64)
    k, v = heads(5, batch=4), heads(5, seed=2, batch=4)
    cache.append(k, v)
    order = torch.tensor([2, 0, 0, 3])
    cache.reorder(order)
    more, others = heads(1, seed=3, batch=4), heads(1, seed=4, batch=4)
    k_view, v_view = cache.append(more, others)
    assert torch.equal(k_view, torch.cat([k[order], more], 2))
    assert torch.equal(v_view, torch.cat([v[order], others], 2))


def test_reorder_of_any_order_is_indexing():
    generator = torch.Generator().manual_seed(3)
    for index in [
        torch.arange(7),
        torch.full((7,), 4),
        *(torch.randint(7, (7,), generator=generator) for _ in range(9)),
    ]:
        cache = Cache(7, 3, 6, 5, dtype=torch.float64)
        k, v = cache.append(heads(4, batch=7), heads(4, seed=2, batch=7))
        before = k[index].clone(), v[index].clone()
        cache.reorder(index)
        k, v = cache.append(heads(1, batch=7), heads(1, batch=7))
        assert torch.equal(k[:, :, :4], before[0])
        assert torch.equal(v[:, :, :4], before[1])


def test_keep_gives_back_the_room_of_the_others():
    cache = Cache(5, 3, 6, 5, dtype=torch.float64)
    k, v = (one.clone() for one in cache.append(heads(2, batch=5), heads(2, seed=2, batch=5)))
    cache.keep(torch.tensor([1, 4]))
    assert cache.k.shape == cache.v.shape == (2, 3, 6, 5)
    after = cache.append(heads(1), heads(1, seed=2))
    assert torch.equal(after[0][:, :, :2], k[[1, 4]])
    assert torch.equal(after[1][:, :, :2], v[[1, 4]])
    assert cache.length == 3


def test_one_step_of_attention_is_the_last_row_of_all():
    q, k, v = heads(7, seed=3, groups=6), heads(7), heads(7, seed=2)
    cache = Cache(2, 3, 7, 5, dtype=torch.float64)
    for at in range(7):
        k_view, v_view = cache.append(k[:, :, at : at + 1], v[:, :, at : at + 1])
        step = attend(q[:, :, at : at + 1], k_view, v_view)
        assert torch.allclose(
            step, attend(q, k[:, :, : at + 1], v[:, :, : at + 1])[:, :, at : at + 1], atol=1e-12, rtol=0
        )


def test_a_gradient_passes_through_one_append_and_torch_refuses_more():
    cache = Cache(2, 3, 7, 5, dtype=torch.float64)
    k = heads(3).requires_grad_()
    view, _ = cache.append(k, k)
    view.square().sum().backward()
    assert torch.allclose(k.grad, 2 * k.detach())
    cache.reset()
    view, _ = cache.append(k, k)
    total = view.square().sum()
    cache.append(k, k)
    with pytest.raises(RuntimeError, match="inplace"):
        total.backward()


def test_a_memory_is_its_keys_and_values():
    k, v = Memory(heads(3), heads(3, seed=2))
    assert torch.equal(k, heads(3))
    assert torch.equal(v, heads(3, seed=2))


def test_bad_input():
    cache = Cache(2, 3, 7, 5, dtype=torch.float64)
    cache.append(heads(5), heads(5))
    with pytest.raises(
        FovealError, match=r"cache: expected at most 7 tokens, got 5 \+ 3; make it with a larger capacity"
    ):
        cache.append(heads(3), heads(3))
    assert cache.length == 5
    for wrong in (heads(1, groups=1), heads(1, batch=1), heads(1, width=1), heads(1).float(), heads(1)[0]):
        with pytest.raises(FovealError, match=r"cache: expected k and v of shape \(2, 3, n, 5\) and torch.float64"):
            cache.append(wrong, wrong)
    with pytest.raises(FovealError, match="expected k and v"):
        cache.append(heads(1), heads(2))
    with pytest.raises(FovealError, match=r"new order: expected one sample for each of 2, got \(3,\)"):
        cache.reorder(torch.tensor([0, 1, 1]))
    with pytest.raises(FovealError, match="the cache's capacity: expected at least 1, got 0"):
        Cache(2, 3, 0, 5)
    assert repr(cache) == "Cache(5 of 7 tokens, (2, 3, 7, 5))"
