import math
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from foveal import attend, mask, watch, weigh
from foveal.core.observe import observers
from foveal.core.watch import Statistics, Weights
from foveal.errors import FovealError
from foveal.layers.multihead import MultiHead

B, H, N, M, D = 2, 3, 5, 7, 11


def heads(queries: int = N, keys: int = M, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return tuple(torch.randn(B, H, length, D, dtype=dtype) for length in (queries, keys, keys))


class Attention(nn.Module):
    """Not of foveal, so that it would be named if it were not seen."""

    def __init__(self, width: int = 6, **options: object) -> None:
        super().__init__()
        self.project, self.options = nn.Linear(width, 3 * width), options

    def forward(self, x: Tensor) -> Tensor:  # (B, N, C)
        q, k, v = self.project(x).reshape(*x.shape[:2], 3, 2, -1).permute(2, 0, 3, 1, 4)
        return attend(q, k, v, **self.options).transpose(1, 2).reshape(x.shape)


class Block(nn.Module):
    def __init__(self, **options: object) -> None:
        super().__init__()
        self.attention, self.out = Attention(**options), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.out(self.attention(x))


def model(count: int = 2, **options: object) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(*(Block(**options) for _ in range(count)))


x = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(2))


def test_by_hand() -> None:
    # q = (0, √2) against k = I, with 1/√2: scores 0 and 1
    q, k = torch.tensor([[[[0.0, math.sqrt(2)]]]]), torch.eye(2)[None, None]
    with watch() as seen:
        attend(q, k, k)
    low, high = 1 / (1 + math.e), math.e / (1 + math.e)
    record = seen["attend"]
    torch.testing.assert_close(record.weights, torch.tensor([[[[low, high]]]]))
    assert record.entropy.item() == pytest.approx(-low * math.log(low) - high * math.log(high))
    assert record.largest.item() == pytest.approx(high)
    assert record.distance.item() == pytest.approx(high)  # query 0 is 0 from key 0 and 1 from key 1
    assert (record.name, record.module, record.kernel, record.shape) == ("attend", "", "flash", (1, 1, 1, 2))


@pytest.mark.parametrize("kernel", ["flash", "blocks", "explicit"])
@pytest.mark.parametrize("pattern", [None, mask.causal, mask.local(1), mask.padding([4, 0])])
def test_every_kernel_shows_its_weights_and_keeps_its_output(kernel: str, pattern: mask.Mask | None) -> None:
    q, k, v = heads()
    expected, alpha = attend(q, k, v, mask=pattern, kernel=kernel, weights=True)
    with watch() as seen:
        y = attend(q, k, v, mask=pattern, kernel=kernel)
    assert torch.equal(y, expected)
    assert list(seen) == ["attend"]  # once
    assert seen["attend"].kernel == kernel
    torch.testing.assert_close(seen["attend"].weights, alpha)
    torch.testing.assert_close(seen["attend"].weights @ v, y)


@pytest.mark.parametrize("keep", [Weights(), Statistics(chunk=2)])
def test_dropout_and_the_random_state_stay_as_they_are(keep: Weights | Statistics) -> None:
    layers = model(dropout=0.5)
    torch.manual_seed(3)
    expected, state = layers(x), torch.get_rng_state()
    torch.manual_seed(3)
    with watch(layers, keep=keep) as seen:
        y = layers(x)
    assert torch.equal(y, expected)
    assert torch.equal(torch.get_rng_state(), state)
    if isinstance(keep, Weights):
        torch.testing.assert_close(seen["0.attention"].weights.sum(-1), torch.ones(2, 2, 5))  # before dropout


def looped(weights: Tensor) -> dict[str, list[float]]:
    """The statistics in plain loops."""
    found: dict[str, list[float]] = {"entropy": [], "largest": [], "distance": []}
    for sample in weights.tolist():
        for head in sample:
            for i, row in enumerate(head):
                found["entropy"].append(-sum(a * math.log(a) for a in row if a > 0))
                found["largest"].append(max(row))
                found["distance"].append(sum(a * abs(i - j) for j, a in enumerate(row)))
    return found


@pytest.mark.parametrize("pattern", [None, mask.causal, mask.padding([4, 0])])
@pytest.mark.parametrize("chunk", [1, 2, 5, 100])
def test_statistics_equal_plain_loops(pattern: mask.Mask | None, chunk: int) -> None:
    q, k, v = heads()
    with watch() as whole:
        attend(q, k, v, mask=pattern)
    with watch(keep=Statistics(chunk)) as seen:
        attend(q, k, v, mask=pattern)
    for name, expected in looped(whole["attend"].weights).items():
        for record in (whole["attend"], seen["attend"]):
            got = getattr(record, name)
            assert got.shape == (B, H, N)
            torch.testing.assert_close(got.flatten(), torch.tensor(expected, dtype=torch.float64), atol=1e-9, rtol=0)


@settings(max_examples=25, deadline=None)
@given(
    chosen=st.lists(st.integers(-H, H - 1), min_size=1, max_size=4),
    rows=st.one_of(
        st.lists(st.integers(-N, N - 1), min_size=1, max_size=4),
        st.integers(-N, N - 1),
        st.slices(N).filter(lambda part: len(range(N)[part]) > 0),
    ),
    chunk=st.integers(1, 6),
)
def test_a_part_is_that_part_of_the_whole(chosen: list[int], rows: list[int] | int | slice, chunk: int) -> None:
    q, k, v = heads()
    with (
        watch() as whole,
        watch(heads=chosen, rows=rows) as part,
        watch(heads=chosen, rows=rows, keep=Statistics(chunk)) as described,
    ):
        attend(q, k, v, mask=mask.causal)
    at = [rows] if isinstance(rows, int) else list(range(N)[rows]) if isinstance(rows, slice) else rows
    torch.testing.assert_close(part["attend"].weights, whole["attend"].weights[:, chosen][:, :, at])
    assert part["attend"].rows.tolist() == [row % N for row in at]
    assert part["attend"].heads.tolist() == [head % H for head in chosen]
    for name in ("entropy", "largest", "distance"):
        expected = getattr(whole["attend"], name)[:, chosen][:, :, at]
        torch.testing.assert_close(getattr(part["attend"], name), expected)
        torch.testing.assert_close(getattr(described["attend"], name), expected)


def test_layers_are_named_in_the_order_of_the_calls() -> None:
    class Reversed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Block(), Block()

        def forward(self, x: Tensor) -> Tensor:
            q = x[:, None]
            return self.first(self.second(self.first(x))) + attend(q, q, q)[:, 0]

    layers = Reversed()
    with watch(layers) as seen:
        layers(x)
    assert list(seen) == ["first.attention", "second.attention", "first.attention#2", "Reversed"]
    assert len(seen) == 4
    assert "second.attention" in seen
    assert seen.get("third") is None
    assert [record.module for record in seen.values()] == ["Attention", "Attention", "Attention", "Reversed"]
    assert seen["first.attention"].shape == (2, 2, 5, 5)
    assert "second.attention  (2, 2, 5, 5)  flash" in repr(seen)


def test_an_attention_in_a_hook_belongs_to_the_layer() -> None:
    layers = model(1)
    layers[0].out.register_forward_pre_hook(lambda module, inputs: (attend(*[inputs[0][:, None]] * 3)[:, 0],))
    with watch(layers) as seen:
        layers(x)
    assert list(seen) == ["0.attention", "0.out"]


def test_only_the_layers_asked_for() -> None:
    layers = model(3)
    with watch(layers, layers=["0.*", "2.attention"]) as seen:
        layers(x)
    assert list(seen) == ["0.attention", "2.attention"]
    with watch(layers, layers="1.attention#2") as seen:
        layers(layers(x))
    assert list(seen) == ["1.attention#2"]


def test_functions_without_a_model() -> None:
    q, k, v = heads()
    scores = torch.randn(B, H, N, M)
    with watch() as seen:
        attend(q, k, v)
        weigh(scores, v.float())
    assert list(seen) == ["attend", "attend#2"]
    torch.testing.assert_close(seen["attend#2"].weights, scores.softmax(-1))


def hooks(layers: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in layers.modules())


def test_nothing_stays_behind() -> None:
    layers = model()
    with watch(layers):
        layers(x)
        assert hooks(layers) == 2 * len(list(layers.modules()))
        assert len(observers) == 1
    assert hooks(layers) == 0
    assert observers == []
    assert torch.overrides._get_current_function_mode() is None


def test_a_model_that_raises() -> None:
    layers = model()
    layers[1].out.register_forward_pre_hook(lambda module, inputs: 1 / 0)
    with pytest.raises(ZeroDivisionError), watch(layers) as seen:
        layers(x)
    assert list(seen) == ["0.attention", "1.attention"]
    assert hooks(layers) == 1  # the test's own
    assert observers == []
    with watch(layers) as seen:  # it also goes on under the right names
        with pytest.raises(ZeroDivisionError):
            layers(x)
        attend(*heads())  # no longer in the model
        layers[0](x)
    assert list(seen) == ["0.attention", "1.attention", "0.attention#2"]


def test_watches_in_watches() -> None:
    layers, other = model(), model(1)
    with watch(layers) as outer:
        layers(x)
        with watch(layers, layers="1.*") as inner, watch(other) as another:
            layers(x)
            other(x)
    assert list(outer) == ["0.attention", "1.attention", "0.attention#2", "1.attention#2"]
    assert list(inner) == ["1.attention"]
    assert list(another) == ["0.attention"]
    assert torch.equal(inner["1.attention"].weights, outer["1.attention#2"].weights)


@torch.no_grad()
def test_compiled_models_are_seen() -> None:
    layers = model()
    compiled = nn.Sequential(torch.compile(layers[0], backend="eager"), layers[1])
    layers[1].compile(backend="eager")
    expected = compiled(x)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with watch(compiled) as seen:
        y = compiled(x)
    assert list(seen) == ["0.attention", "1.attention"]
    torch.testing.assert_close(y, expected)
    compiled(x)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs  # and nothing is compiled again
    whole = torch.compile(model(1), backend="eager")
    with watch(whole) as seen:
        whole(x)
    assert list(seen) == ["0.attention"]


def test_weights_are_detached_unless_asked() -> None:
    layers = model(1)
    with watch(layers) as seen, watch(layers, keep=Weights(attached=True, device="cpu")) as attached:
        layers(x)
    assert not seen["0.attention"].weights.requires_grad
    attached["0.attention"].entropy.mean().backward()
    assert layers[0].attention.project.weight.grad.abs().sum() > 0
    with torch.no_grad(), watch(layers, keep=Weights(attached=True)) as seen:
        layers(x)
    assert not seen["0.attention"].weights.requires_grad


def test_autocast_does_not_round_the_scores() -> None:
    q, k, v = heads(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16), watch() as seen:
        attend(q, k, v)
    torch.testing.assert_close(seen["attend"].weights, attend(q, k, v, weights=True)[1])


def test_statistics_never_store_all_pairs() -> None:
    class Largest(TorchDispatchMode):
        numel = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, tuple) else (out,):
                if isinstance(tensor, Tensor):
                    self.numel = max(self.numel, tensor.numel())
            return out

    length = 4096
    q = torch.randn(1, 1, length, 4)
    with Largest() as largest, watch(keep=Statistics(chunk=128)) as seen:
        attend(q, q, q, mask=mask.causal)
    assert seen["attend"].entropy.shape == (1, 1, length)
    assert length < largest.numel <= 128 * length
    with Largest() as largest, watch(rows=[7]):
        attend(q, q, q, mask=mask.causal)
    assert largest.numel <= 4 * length


def test_another_thread_is_not_mixed_in() -> None:
    q, k, v = heads()
    with watch() as seen:
        thread = threading.Thread(target=attend, args=(q, k, v))
        thread.start()
        thread.join()
        attend(q, k, v)
    assert list(seen) == ["attend"]


def test_what_cannot_be_had_is_reported() -> None:
    layers = model()
    with watch(layers, keep=Statistics()) as seen:
        layers(x)
    with pytest.raises(
        FovealError, match=r"'0\.attention'.*only entropy, largest, distance; watch with keep=Weights\(\)"
    ):
        _ = seen["0.attention"].weights
    with pytest.raises(FovealError, match=r"no layer is called '1\.attentoin'; the nearest is '1\.attention'"):
        seen["1.attentoin"]
    with pytest.raises(
        FovealError, match=r"what was seen: expected the name of a layer, '0\.attention' or '1.*, got 0$"
    ):
        seen[0]
    with (
        pytest.raises(FovealError, match=r"no layer is called 'O\.attention'; the nearest is"),
        watch(layers, layers="O.attention"),
    ):
        layers(x)
    with pytest.raises(FovealError, match="the model was not run inside the with"), watch(layers):
        pass
    with pytest.raises(FovealError, match="the model was not run inside the with"), watch(layers):
        attend(*heads())
    with pytest.raises(FovealError, match="no attention ran inside the with"), watch():
        pass
    with pytest.raises(FovealError, match="no attention ran in Linear"), watch(layers[0].out):
        layers[0].out(x)


@pytest.mark.parametrize("bad", [2, -3, [0, 2], [], [0.5], [True], slice(2, 2)])
def test_heads_and_rows_that_are_not_there(bad: object) -> None:
    q = torch.randn(1, 2, 2, 4)
    for name in ("heads", "rows"):
        with pytest.raises(FovealError, match=f"{name} of layer 'attend': expected .* 2, got"), watch(**{name: bad}):
            attend(q, q, q)
    assert observers == []


def test_bad_arguments() -> None:
    with pytest.raises(FovealError, match=r"expected a model.*got str"), watch("model"):
        pass
    with pytest.raises(FovealError, match="chunk: expected at least 1 row, got 0"):
        Statistics(chunk=0)


def test_distance_counts_from_where_a_cached_query_stands() -> None:
    torch.manual_seed(0)
    layer = MultiHead(6, 2, mask=mask.causal).eval()
    tokens = torch.randn(1, 7, 6)
    for keep in (Weights(), Statistics(chunk=2)):
        with torch.no_grad(), watch(layer, keep=keep) as whole:
            layer(tokens)
        cache = layer.new_cache(1, 7)
        steps = []
        for i in range(7):
            with torch.no_grad(), watch(layer, keep=keep) as seen:
                layer(tokens[:, i : i + 1], cache=cache)
            assert seen["MultiHead"].start == i
            steps.append(seen["MultiHead"].distance)
        torch.testing.assert_close(torch.cat(steps, -1), whole["MultiHead"].distance)


@pytest.mark.parametrize("pattern", [mask.causal, mask.local(1), mask.padding([4, 0])], ids=repr)
def test_the_gradient_of_the_entropy_is_right_where_a_mask_makes_weights_zero(pattern) -> None:
    # dH/dα_j = −(log α_j + 1) where α_j > 0, and a pair that the mask drops adds nothing: by hand, from α and the
    # scores.
    q, k, v = (x.requires_grad_() for x in heads())
    with watch(keep=Weights(attached=True)) as seen:
        attend(q, k, v, mask=pattern)
    record = seen["attend"]
    record.entropy.sum().backward()
    alpha = record.weights.detach()
    slope = torch.where(alpha > 0, -(alpha.clamp_min(1e-300).log() + 1), 0.0)
    d_scores = alpha * (slope - (alpha * slope).sum(-1, keepdim=True))  # through the softmax
    torch.testing.assert_close(q.grad, d_scores @ k.detach() / math.sqrt(D))
    torch.testing.assert_close(k.grad, d_scores.mT @ q.detach() / math.sqrt(D))
