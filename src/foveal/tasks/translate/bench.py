"""`foveal bench translate [MODEL]`: sentences per second on a CPU,
beside transformers' generate and CTranslate2 with the same weights.

    sentences/s = sources of a batch / median time of a decoding
    every decoding takes the same number of steps: the end is forbidden, then forced

Before anything is timed, all are asked for the same sentences: a contender with other tokens than ours is named, since
it would be another model. Then what the cache is worth: the time of a sentence against its length, with it and
without. Random weights unless a model is named: a step costs the same whatever its tokens are. transformers and
CTranslate2 are left out where they are not installed, or the model is none of theirs.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch

from foveal.deploy.measure.clock import Timing, interleaved
from foveal.deploy.twins.fast_decoder import engine_of
from foveal.deploy.twins.fast_linear import can_quantise
from foveal.errors import FovealError, expect
from foveal.models.torch_engine import TorchEngine
from foveal.models.transformer import Transformer
from foveal.models.zoo import presets
from foveal.report.bench import Bench, Row
from foveal.runtime.decode.engine import Engine, Rows
from foveal.tasks.load import find_model, load
from foveal.tasks.translate.bench_contenders import FASTEST, OURS, THEIRS, TORCH, Contender, contenders, searched
from foveal.tasks.translate.options import BenchOptions

VOCABULARY, SOURCE = 32000, 15  # tokens that random weights know, and of a source, its end included
LENGTHS = (20, 50, 100, 200)
# the last takes minutes: it is left out unless --max-length asks for it
UNCACHED, QUICK = ((20, 50, 100, 200, 400, 800), 400)
BARS = {  # of the base model: what ours is at least, as a multiple of theirs
    (OURS, "fp32", THEIRS): {(1, 1): 1.4, (1, 4): 2.0, (32, 1): 1.2, (32, 4): 1.1},
    (OURS, "int8", FASTEST): {(1, 1): 1.0, (1, 4): 1.0, (32, 1): 1.0, (32, 4): 0.8},
}
LARGEST = 4096  # sentences at once, or sentences of a beam
OBEYS = ("models", "batch", "max_length")  # flags of `foveal bench`, beside the task's own options
ON_CPU = True  # unless --device names another


def measure(bench: Bench) -> None:
    expect(bench.device == "cpu", "foveal bench translate", "--device cpu", f"--device {bench.device}")
    asked, options = bench.asked, bench.options
    assert asked is not None
    assert isinstance(options, BenchOptions)
    batches, beams = _numbers(asked.batch or "1,32", "--batch"), _numbers(options.beam, "--beam")
    tokens = options.tokens
    model, base = _model(asked.models)
    bench.stem = "translate-decoding"
    draw = np.random.default_rng(0)
    count = min(model.config.source_vocab, model.config.target_vocab)
    sources = [draw.integers(4, count, SOURCE - 1).tolist() for _ in range(max(batches))]
    with contenders(bench, model) as those:
        _agreement(bench, those, sources[:8], tokens)
        for batch in batches:
            for beam in beams:
                _rates(bench, those, sources[:batch], beam, tokens, base and tokens == 20)
    _rounding(bench, model, sources, tokens)
    _against_length(bench, model, sources[:1], QUICK if asked.max_length is None else asked.max_length)


def _numbers(text: str, what: str) -> list[int]:
    parts = text.split(",")
    fits = all(part.isascii() and part.isdigit() and len(part) < 6 and 0 < int(part) <= LARGEST for part in parts)
    expect(fits, what, f"integers from 1 to {LARGEST:,}, such as 1,4", text)
    return [int(part) for part in parts]


def _model(named: Sequence[str]) -> tuple[Transformer, bool]:
    """The model, and whether it is the one that the bars are for."""
    expect(len(named) <= 1, "foveal bench translate", "one model at most", " ".join(named))
    name = named[0] if named else "transformer-base"
    preset = find_model(name) is None
    config = (
        {"source_vocab": VOCABULARY, "target_vocab": VOCABULARY} if preset and name in presets("transformer") else None
    )
    model = load(name, device="cpu", config=config).network
    if not isinstance(model, Transformer):
        raise FovealError(f"{name}: expected a Transformer, got a {type(model).__name__}")
    if preset:
        with (
            torch.no_grad()
        ):  # as after training, the marks of padding and beginning never come; ours and CTranslate2 would forbid them
            model.tables.of_output[[model.config.pad, model.config.begin]] = 0.0
    return model, name == "transformer-base"


def _agreement(bench: Bench, those: list[Contender], sources: list[list[int]], steps: int) -> None:
    """One by one: who generates the tokens that TorchEngine generates."""
    wanted = next(one for one in those if one.name == TORCH).decoding(sources, 1, steps)
    for one in those:
        found = one.decoding(sources, 1, steps)
        same = sum(ours == theirs for ours, theirs in zip(wanted, found, strict=True))
        bench.add(Row(f"greedy sentences of {one}", f"{same} of {len(sources)} are TorchEngine's", "", None, ""))


def _rates(
    bench: Bench, those: list[Contender], sources: list[list[int]], beam: int, steps: int, evaluated: bool
) -> None:
    batch = len(sources)
    jobs = {str(one): (lambda one=one: one.decoding(sources, beam, steps)) for one in those}
    what = f"batch {batch}, beam {beam}"
    taken = bench.time(what, jobs, bench.rounds if batch * beam < 32 else max(3, bench.rounds // 3))
    rates = {name: _rate(batch, timing) for name, timing in taken.items()}
    for one in those:
        ratios = {}
        for name, precision in ((THEIRS, "fp32"), (FASTEST, one.precision)):
            contender = str(Contender(name, precision, one.decoding))
            if contender in taken and contender != str(one):
                ratios[name] = taken[contender].median / taken[str(one)].median
        known = [key for key in BARS if key[:2] == (one.name, one.precision) and key[2] in ratios]
        first = next(((key[2], BARS[key][batch, beam]) for key in known if (batch, beam) in BARS[key]), None)
        other = first[0] if first else next(iter(ratios), None)
        others = " · ".join(f"{ratio:.2f} × {name}" for name, ratio in ratios.items() if name != other)
        bar, met = "", None
        if first is not None and evaluated:
            bar, met = f"at least {first[1]:g}", ratios[first[0]] >= first[1]
        bench.add(
            Row(
                f"{what}: {one}",
                rates[str(one)],
                others,
                None if other is None else ratios[other],
                f"× {other}",
                bar,
                met,
            )
        )


def _rate(batch: int, timing: Timing) -> str:
    return f"{batch / timing.median:.1f} sentences/s ({batch / timing.p90:.1f}–{batch / timing.p10:.1f})"


def _rounding(bench: Bench, model: Transformer, sources: list[list[int]], steps: int) -> None:
    """The log-probabilities of each engine for the same tokens, forced on it."""
    draw = np.random.default_rng(1)
    forced = draw.integers(4, model.config.target_vocab, (steps, len(sources)))
    reference = _forced(TorchEngine(model), sources, forced)
    for precision in ("fp32", "int8") if can_quantise() else ("fp32",):
        apart = np.abs(_forced(engine_of(model, precision), sources, forced) - reference)
        found = f"{apart.max():.2g} at most, {apart.mean():.2g} on average"
        met = bool(apart.max() <= 1e-4) if precision == "fp32" else None
        name = f"forced log-probabilities, {OURS} {precision} against TorchEngine"
        bench.add(Row(name, found, f"{apart.size:,} tokens", None, "", "at most 1e-4" if met is not None else "", met))


def _forced(engine: Engine, sources: list[list[int]], forced: Rows) -> np.ndarray:
    """log P of every token of the vocabulary's first thousand and of the end, at every step."""
    engine.begin(sources, 1, len(forced) + 1)
    tokens, found = np.full(len(sources), engine.first, np.int64), []
    for row in forced:
        following = engine.step(tokens, 2**31 - 1, None)
        order = np.argsort(following.tokens, 1)
        found.append(
            np.concatenate([np.take_along_axis(following.values, order, 1)[:, 4:1000], following.ends[:, None]], 1)
        )
        tokens = np.ascontiguousarray(row)
    return np.stack(found)


def _against_length(bench: Bench, model: Transformer, sources: list[list[int]], longest: int) -> None:
    """One sentence, greedy.

    Without a cache, each step reads all tokens again: to the power 2, once they cost more than what any step costs.
    """
    fast = searched(engine_of(model))
    jobs = {str(steps): (lambda steps=steps: fast(sources, 1, steps)) for steps in LENGTHS}
    taken = bench.time("with the cache", jobs, max(3, bench.rounds // 3))
    _curve(bench, "with the cache", taken, LENGTHS, 11.0)
    lengths = tuple(steps for steps in UNCACHED if steps <= longest)
    plain = {str(steps): (lambda steps=steps: _uncached(model, sources[0], steps)) for steps in lengths}
    taken = interleaved(plain, rounds=1, warm_up=0)
    bench.timings["without a cache"] = taken
    _curve(bench, "without a cache", taken, lengths, None)


def _curve(bench: Bench, what: str, taken: dict[str, Timing], lengths: tuple[int, ...], at_most: float | None) -> None:
    first, last = taken[str(lengths[0])].median, taken[str(lengths[-1])].median
    power = math.log(last / taken[str(lengths[-2])].median) / math.log(lengths[-1] / lengths[-2])
    found = " · ".join(f"{steps} tokens {taken[str(steps)].median:.2f} s" for steps in lengths)
    bar, met = ("", None) if at_most is None else (f"at most {at_most:g}", last / first <= at_most)
    meaning = f"× the time for {lengths[-1] // lengths[0]} × the tokens"
    bench.add(
        Row(
            f"time against length, {what}",
            found,
            f"grows at the end with tokens to the power {power:.2f}",
            last / first,
            meaning,
            bar,
            met,
        )
    )


@torch.inference_mode()
def _uncached(model: Transformer, source: list[int], steps: int) -> list[int]:
    tokens = torch.tensor([[model.config.begin]])
    given = torch.tensor([[*source, model.config.end]])
    for _ in range(steps):
        # The source, too: what a decoder that keeps nothing does.
        hidden = model.decode(tokens, model.encode(given))[:, -1]
        tokens = torch.cat([tokens, model.logits(hidden).argmax(1)[:, None]], 1)
    return [int(token) for token in tokens[0, 1:]]
