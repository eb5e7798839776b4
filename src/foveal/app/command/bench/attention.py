"""`foveal bench attention`: `attend` beside torch's scaled_dot_product_attention and, on a GPU,
beside FlexAttention.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from foveal.core.attend import attend
from foveal.core.mask import Mask
from foveal.core.pattern.causal import causal
from foveal.core.pattern.local import local
from foveal.core.watch import Statistics, watch
from foveal.deploy.measure.memory import peak
from foveal.layers.cache import Cache
from foveal.layers.performer import Performer
from foveal.position.relative import Relative
from foveal.report.bench import Bench, Row

OBEYS = ("max_length",)  # the flags that it obeys

Heads = tuple[Tensor, Tensor, Tensor]
Run = Callable[[Heads], Tensor]


def measure(bench: Bench) -> None:
    torch.manual_seed(0)
    if bench.device == "cpu":
        _on_cpu(bench)
    else:
        _on_gpu(bench)


def _on_cpu(bench: Bench) -> None:
    """One sample, 4 heads of 64, float32."""
    for length in (1024, 4096):
        if length > bench.longest:
            continue
        _plain_on_cpu(bench, _heads(1, 4, length))
    _local_on_cpu(bench, min(4096, bench.longest))
    _performer(bench)
    _decoding(bench)
    _no_square(bench, _heads(1, 1, bench.longest), _heads(1, 1, bench.longest // 2))


def _plain_on_cpu(bench: Bench, heads: Heads) -> None:
    length = heads[0].shape[2]
    with torch.no_grad():
        bench.slower(f"plain N={length}", lambda: attend(*heads), {"sdpa": lambda: _sdpa(heads)}, at_most=1.05)
        theirs = {"sdpa": lambda: _sdpa(heads, is_causal=True)}
        bench.slower(f"causal N={length}", lambda: attend(*heads, mask=causal), theirs, at_most=1.05)


def _local_on_cpu(bench: Bench, length: int) -> None:
    heads, upstream = _heads(1, 4, length, grad=True), torch.randn(1, 4, length, 64)
    dense = local(128).dense(length, length)

    def ours(h: Heads = heads) -> Tensor:
        return attend(*h, mask=local(128))

    def theirs(h: Heads = heads) -> Tensor:
        return _sdpa(h, attn_mask=dense)

    name, few = f"local(128) N={length}", max(3, bench.rounds // 3)
    times, less = (5, 8) if length == 4096 else (None, None)  # the bars are for that length
    with torch.no_grad():
        bench.faster(f"{name}, forward", ours, {"sdpa, dense mask": theirs}, at_least=times, rounds=few)
        bench.smaller(
            f"{name}, forward, peak with the result", peak(ours), ("sdpa, dense mask", peak(theirs)), at_least=less
        )

    def both(run: Callable[[], Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(run(), heads, upstream)

    bench.faster(
        f"{name}, forward + backward", both(ours), {"sdpa, dense mask": both(theirs)}, at_least=times, rounds=few
    )
    mine, other = peak(both(ours)), peak(both(theirs))
    results = 4 * heads[0].nbytes  # the output and three gradients, which every method must hold
    bench.smaller(
        f"{name}, forward + backward, peak with the results", mine, ("sdpa, dense mask", other), at_least=less
    )
    bench.smaller(
        f"{name}, forward + backward, peak beyond the results", mine - results, ("sdpa, dense mask", other - results)
    )


def _performer(bench: Bench) -> None:
    short, long = bench.longest // 4, bench.longest
    layer = Performer(256, 4, features=256).eval()
    tokens = {length: torch.randn(1, length, 256) for length in (short, long)}
    with torch.no_grad():
        bench.slower(
            f"performer, 256 features, N={long}",
            lambda: layer(tokens[long]),
            {f"performer N={short}": lambda: layer(tokens[short])},
            at_most=4.8 if long == 16384 else None,
        )


def _decoding(bench: Bench) -> None:
    """One step: write a key and a value, read all; 16 heads of q share 4 of k and v."""
    for filled in (256, 1024, 4096):
        cache = Cache(1, 4, filled, 64)
        q, step = torch.randn(1, 16, 1, 64), torch.randn(1, 4, 1, 64)
        cache.append(torch.randn(1, 4, filled - 1, 64), torch.randn(1, 4, filled - 1, 64))

        def ours(cache: Cache = cache, q: Tensor = q, step: Tensor = step, filled: int = filled) -> Tensor:
            cache.length = filled - 1
            return attend(q, *cache.append(step, step))

        def theirs(cache: Cache = cache, q: Tensor = q) -> Tensor:
            return F.scaled_dot_product_attention(q, cache.k, cache.v, enable_gqa=True)

        with torch.inference_mode():
            bench.slower(
                f"grouped decoding step, {filled} in the cache",
                ours,
                {"bare sdpa": theirs},
                at_most=1.1,
                rounds=20 * bench.rounds,
            )


def _on_gpu(bench: Bench) -> None:
    """16 heads of 64, bfloat16, 16,384 tokens in all."""
    for length in (1024, 4096, 16384):
        heads = _heads(16384 // length, 16, length, "cuda", grad=True)
        for mask in (None, causal):
            _against_backends(bench, f"{'plain' if mask is None else 'causal'} N={length}", heads, mask)
    _against_flex(bench, _heads(1, 16, 16384, "cuda", grad=True))
    for length, clip in ((4096, 128), (4096, 4095), (16384, 128), (16384, 16383)):
        _shaw(bench, _heads(16384 // length, 16, length, "cuda", grad=True), clip)
    _no_square(bench, _heads(1, 16, 16384, "cuda"), _heads(1, 16, 8192, "cuda"))


def _against_backends(bench: Bench, name: str, heads: Heads, mask: Mask | None) -> None:
    def on(backend: SDPBackend) -> Run:
        def run(h: Heads) -> Tensor:
            with sdpa_kernel([backend]):
                return _sdpa(h, is_causal=mask is not None)

        return run

    theirs = {kind: on(getattr(SDPBackend, f"{kind.upper()}_ATTENTION")) for kind in ("cudnn", "flash", "efficient")}
    _both_passes(bench, name, heads, lambda h: attend(*h, mask=mask), theirs, at_most=1.03)


def _against_flex(bench: Bench, heads: Heads) -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    length = heads[0].shape[2]
    blocks = create_block_mask(lambda b, h, i, j: (i - j).abs() <= 256, None, None, length, length, device="cuda")
    compiled = torch.compile(flex_attention, dynamic=False)
    _both_passes(
        bench,
        f"local(256) N={length}",
        heads,
        lambda h: attend(*h, mask=local(256)),
        {"flex": lambda h: compiled(*h, block_mask=blocks)},
        at_most=1.1,
    )


def _shaw(bench: Bench, heads: Heads, clip: int) -> None:
    from torch.nn.attention.flex_attention import flex_attention

    length = heads[0].shape[2]
    position = Relative(64, max_distance=clip).to("cuda", torch.bfloat16)
    torch._dynamo.reset()  # so that flex is really compiled, however many kinds were compiled before
    compiled = torch.compile(flex_attention, dynamic=False)

    def flex(h: Heads) -> Tensor:
        products = (h[0] @ position.table[0].T) * 0.125  # (B, H, N, 2K+1)
        picked: Tensor = compiled(
            *h, score_mod=lambda s, b, g, i, j: s + products[b, g, i, torch.clamp(i - j, -clip, clip) + clip]
        )
        return picked

    def ours(h: Heads) -> Tensor:
        return attend(*h, bias=position.term())

    name = f"Shaw's relative positions, K={clip}, N={length}"
    products = heads[0].shape[0] * heads[0].shape[1] * length * (2 * clip + 1)
    if products < 2**31:
        _both_passes(bench, name, heads, ours, {"flex, gathered": flex}, at_least=1, extra=(position.table,))
    else:  # FlexAttention indexes its captured tensors with 32 bits, and reads outside of memory here
        words = f"flex, gathered: fails on {products:,} products q·R"
        for part, job in (
            ("forward", partial(ours, heads)),
            ("forward + backward", _graded(ours, heads, (position.table,))),
        ):
            taken = bench.time(f"{name}, {part}", {"ours": job}, 5)
            bench.add(Row(f"{name}, {part}", f"{taken['ours'].median * 1e3:.1f} ms", words, None, "", "runs", True))
    most = peak(_graded(ours, heads, (position.table,)), "cuda")
    bench.add(Row(f"{name}, forward + backward, peak memory", f"{most / 2**30:.2f} GiB", "", None, ""))


def _both_passes(
    bench: Bench,
    name: str,
    heads: Heads,
    ours: Run,
    theirs: dict[str, Run],
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    extra: tuple[Tensor, ...] = (),
) -> None:
    forward = {kind: partial(run, heads) for kind, run in theirs.items()}
    backward = {kind: _graded(run, heads, extra) for kind, run in theirs.items()}
    with torch.no_grad():
        if at_least is None:
            bench.slower(f"{name}, forward", lambda: ours(heads), forward, at_most=at_most)
        else:
            bench.faster(f"{name}, forward", lambda: ours(heads), forward, at_least=at_least)
    if at_least is None:
        bench.slower(f"{name}, forward + backward", _graded(ours, heads, extra), backward, at_most=at_most)
    else:
        bench.faster(f"{name}, forward + backward", _graded(ours, heads, extra), backward, at_least=at_least)


def _graded(run: Run, heads: Heads, extra: tuple[Tensor, ...] = ()) -> Callable[[], object]:
    upstream = torch.randn_like(heads[0])
    return lambda: torch.autograd.grad(run(heads), (*heads, *extra), upstream)


def _no_square(bench: Bench, long: Heads, short: Heads) -> None:
    """Twice the length: memory that doubles has no N² term; one that grows four times has."""

    def statistics(heads: Heads) -> None:
        with watch(keep=Statistics()):
            attend(*heads)

    length = long[0].shape[2]
    jobs: dict[str, Callable[[Heads], object]] = {
        "attend, no mask": lambda h: attend(*h),
        "attend, causal": lambda h: attend(*h, mask=causal),
        "attend, local(128)": lambda h: attend(*h, mask=local(128)),
        "watch's statistics": statistics,
    }
    with torch.no_grad():
        for name, job in jobs.items():
            mine, half = (peak(partial(job, heads), bench.device) for heads in (long, short))
            square = long[0].shape[0] * long[0].shape[1] * length**2 * long[0].element_size()
            text = f"{mine / 2**20:.1f} MiB"
            other = f"N={length // 2}: {half / 2**20:.1f} MiB; N² scores would be {square / 2**20:.0f} MiB"
            bench.add(
                Row(
                    f"peak memory of {name}, N={length}",
                    text,
                    other,
                    mine / half,
                    "× for twice the length",
                    "at most 2.5" if length >= 8192 else "",
                    mine <= 2.5 * half
                    if length >= 8192
                    else None,  # in short sequences the kernels' own room counts for more
                )
            )


def _heads(batch: int, heads: int, length: int, device: str = "cpu", grad: bool = False) -> Heads:
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    q, k, v = (torch.randn(batch, heads, length, 64, device=device, dtype=dtype, requires_grad=grad) for _ in range(3))
    return q, k, v


def _sdpa(heads: Heads, **options: object) -> Tensor:
    return F.scaled_dot_product_attention(*heads, **options)  # type: ignore[arg-type]
