"""bench_training.py [SENTENCES LENGTH [NUMBER…]]: target words a second of training the base Transformer, ours beside torch.nn.Transformer, on a GPU.

Both have one table of 37,000 words, the same layers, dropout 0.1, label smoothing 0.1, bfloat16 by autocast, fused AdamW; no sentence is
padded, so that neither has an advantage of it, though ours asks for padding with a mask. torch's drops attention's weights and the hidden layer, too,
which the paper does not: one build of ours does, and one of torch's does not.
Recorded: forward and backward pass are replayed as a CUDA graph (train/recorded.py), so that no time goes to launching kernels. Rounds of one and of the other take turns. Numbers: only these builds, counted from 0.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from foveal.deploy.measure.origin import origin
from foveal.losses.token_loss import token_loss
from foveal.models.zoo import create
from foveal.position.sinusoidal import sinusoid
from foveal.train.cuda_graph import GraphedLoss

WORDS, WARM_UP, STEPS, ROUNDS = 37000, 6, 10, 7


class Torchs(nn.Module):
    """torch.nn.Transformer with what it leaves to its user: tables, positions, the output."""

    def __init__(self, *, papers: bool = False) -> None:
        """papers: only the dropouts of the paper."""
        super().__init__()
        self.table = nn.Embedding(WORDS, 512)
        nn.init.normal_(self.table.weight, std=512**-0.5)
        self.net = nn.Transformer(512, 8, 6, 6, 2048, 0.1, batch_first=True)
        self.net.encoder.norm = self.net.decoder.norm = None  # post-LN has none
        self.dropout = nn.Dropout(0.1)
        for part in self.net.modules():
            if papers and isinstance(part, nn.MultiheadAttention):
                part.dropout = 0.0
            elif papers and isinstance(part, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                part.dropout.p = 0.0

    def embed(self, words: Tensor) -> Tensor:
        positions = sinusoid(torch.arange(words.shape[1], device=words.device), 512)
        embedded: Tensor = self.dropout(self.table(words) * 512**0.5 + positions)
        return embedded

    def forward(self, source: Tensor, target: Tensor, out: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        hidden: Tensor = self.net(self.embed(source), self.embed(target), tgt_mask=mask, tgt_is_causal=True)
        return functional.cross_entropy(functional.linear(hidden, self.table.weight).flatten(0, 1), out.flatten(), label_smoothing=0.1)


class Ours(nn.Module):
    def __init__(self, chunk: int, **settings: float) -> None:
        super().__init__()
        self.net: Any = create("transformer-base", source_words=WORDS, target_words=WORDS, **settings)
        self.chunk = chunk

    def forward(self, source: Tensor, target: Tensor, out: Tensor) -> Tensor:
        hidden = self.net.decode(target, self.net.encode(source)).flatten(0, 1)
        return token_loss(hidden, self.net.tables.of_output, out.flatten(), 0.1, chunk=self.chunk)


def stepper(model: nn.Module, batch: tuple[Tensor, Tensor, Tensor], how: str) -> Callable[[], Tensor]:
    device = batch[0].device
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, betas=(0.9, 0.98), eps=1e-9, fused=device.type == "cuda")
    called: Any = torch.compile(model) if "compiled" in how else model
    if "recorded" in how:
        called = GraphedLoss(called)

    def step() -> Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            loss: Tensor = called(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


def main(sentences: int, length: int, *only: int) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    source, target, out = (torch.randint(4, WORDS, (sentences, length), device=device) for _ in range(3))
    plain = {
        "torch.nn.Transformer": Torchs,
        "ours": lambda: Ours(4096),
        "ours, all words at once": lambda: Ours(sentences * length),
        "ours, with all of torch's dropouts": lambda: Ours(4096, attention_dropout=0.1, hidden_dropout=0.1),
        "torch.nn.Transformer, the paper's dropouts": lambda: Torchs(papers=True),
    }
    builds: dict[str, tuple[Callable[[], nn.Module], str]] = {
        f"{name}, {how}": (make, how) for how in ("compiled", "compiled, recorded", "recorded") for name, make in plain.items()
    }
    builds = {name: build for place, (name, build) in enumerate(builds.items()) if not only or place in only}
    steps, peaks, taken = {}, {}, {name: list[float]() for name in builds}
    for name, (make, how) in builds.items():
        begun, held = time.perf_counter(), _reserved(device)
        steps[name] = stepper(make(), (source, target, out), how)
        try:
            for _ in range(WARM_UP):
                steps[name]()
            _wait(device)
            if device.type == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
                steps[name]()
                peaks[name] = torch.cuda.max_memory_reserved() - held
            ready = time.perf_counter()
            steps[name]()
            _wait(device)
            told = f"ready after {ready - begun:.0f} s, one step takes {1e3 * (time.perf_counter() - ready):.1f} ms"
            print(f"{name}: {told}", file=sys.stderr, flush=True)
        except Exception as error:  # noqa: BLE001 — one that fails is told, the others are measured
            print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
            del steps[name]
    for _ in range(ROUNDS):
        for name, step in steps.items():
            _wait(device)
            start = time.perf_counter()
            for _ in range(STEPS):
                step()
            _wait(device)
            taken[name].append((time.perf_counter() - start) / STEPS)
    print(" · ".join(f"{key} {value}" for key, value in origin(str(device)).items()), end="\n\n")
    print("| | ms a step | target words a second | × the first | peak GB |\n|---|---:|---:|---:|---:|")
    first = statistics.median(taken[next(iter(steps))])
    for name in steps:
        middle = statistics.median(taken[name])
        spread = f"{1e3 * middle:.1f} ({1e3 * min(taken[name]):.1f}–{1e3 * max(taken[name]):.1f})"
        print(f"| {name} | {spread} | {sentences * length / middle:,.0f} | {first / middle:.2f} | {peaks.get(name, 0) / 1e9:.1f} |")


def _reserved(device: torch.device) -> int:
    """Bytes of a GPU that the builds before have taken: a recording's are not allocated, in torch's count, but it has them."""
    if device.type != "cuda":
        return 0
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:] or ("512", "32")))
