"""bench_training.py [--builds ours,torch] [--how compiled,graphs]:
target tokens per second of training the base Transformer, on a GPU.

Ours and torch.nn.Transformer have one table of 37,000 tokens, the same layers, dropout 0.1, label smoothing 0.1,
bfloat16 by autocast, fused AdamW; no sentence is padded, so that neither has an advantage of it, though ours asks for
padding with a mask. torch's drops attention's weights and the hidden layer, too, which the paper does not: compare
builds with the same dropouts.

    ours                  the paper's dropouts                   torch                  all of torch's dropouts
    ours-all-dropouts     with all of torch's dropouts           torch-paper-dropouts   the paper's dropouts
    ours-unchunked        the loss of all tokens at once

Every build runs in every way of --how: `compiled` by torch.compile; `graphs`: forward and backward pass are recorded
as a CUDA graph and replayed (training/cuda_graph.py), so that no time goes to launching kernels; `compiled+graphs`
both. Rounds of all take turns.
"""

import argparse
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
from foveal.report.table import Table
from foveal.training.cuda_graph import GraphedLoss

VOCABULARY, WARM_UP, STEPS, ROUNDS, CHUNK = 37000, 6, 10, 7, 4096
Batch = tuple[Tensor, Tensor, Tensor]


class Torchs(nn.Module):
    """torch.nn.Transformer with what it leaves to its user: tables, positions, the output."""

    def __init__(self, *, paper_dropouts: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, 512)
        nn.init.normal_(self.table.weight, std=512**-0.5)
        self.net = nn.Transformer(512, 8, 6, 6, 2048, 0.1, batch_first=True)
        self.net.encoder.norm = self.net.decoder.norm = None  # post-LN has none
        self.dropout = nn.Dropout(0.1)
        for part in self.net.modules():
            if paper_dropouts and isinstance(part, nn.MultiheadAttention):
                part.dropout = 0.0
            elif paper_dropouts and isinstance(part, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                part.dropout.p = 0.0

    def embed(self, tokens: Tensor) -> Tensor:
        positions = sinusoid(torch.arange(tokens.shape[1], device=tokens.device), 512)
        embedded: Tensor = self.dropout(self.table(tokens) * 512**0.5 + positions)
        return embedded

    def forward(self, source: Tensor, target: Tensor, out: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        hidden: Tensor = self.net(self.embed(source), self.embed(target), tgt_mask=mask, tgt_is_causal=True)
        logits = functional.linear(hidden, self.table.weight).flatten(0, 1)
        return functional.cross_entropy(logits, out.flatten(), label_smoothing=0.1)


class Ours(nn.Module):
    def __init__(self, chunk: int = CHUNK, **config: float) -> None:
        super().__init__()
        self.net: Any = create("transformer-base", source_vocab=VOCABULARY, target_vocab=VOCABULARY, **config)
        self.chunk = chunk

    def forward(self, source: Tensor, target: Tensor, out: Tensor) -> Tensor:
        hidden = self.net.decode(target, self.net.encode(source)).flatten(0, 1)
        return token_loss(hidden, self.net.tables.of_output, out.flatten(), 0.1, chunk=self.chunk)


BUILDS: dict[str, Callable[[], nn.Module]] = {
    "torch": Torchs,
    "torch-paper-dropouts": lambda: Torchs(paper_dropouts=True),
    "ours": Ours,
    "ours-all-dropouts": lambda: Ours(attention_dropout=0.1, hidden_dropout=0.1),
    "ours-unchunked": lambda: Ours(2**31 - 1),
}
WAYS = ("eager", "compiled", "graphs", "compiled+graphs")


def stepper(model: nn.Module, batch: Batch, way: str) -> Callable[[], Tensor]:
    device = batch[0].device
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, betas=(0.9, 0.98), eps=1e-9, fused=device.type == "cuda")
    called: Any = torch.compile(model) if "compiled" in way else model
    if "graphs" in way:
        called = GraphedLoss(called)

    def step() -> Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            loss: Tensor = called(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


def prepared(name: str, batch: Batch) -> tuple[Callable[[], Tensor], int]:
    """A build that has warmed up, and the bytes of a GPU that it takes."""
    device, begun = batch[0].device, time.perf_counter()
    before = _reserved(device)
    build, _, way = name.partition(", ")
    step = stepper(BUILDS[build](), batch, way)
    for _ in range(WARM_UP):
        step()
    _wait(device)
    peak = 0
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        step()
        peak = torch.cuda.max_memory_reserved() - before
    ready = time.perf_counter()
    step()
    _wait(device)
    took = 1e3 * (time.perf_counter() - ready)
    print(f"{name}: ready after {ready - begun:.0f} s, one step takes {took:.1f} ms", file=sys.stderr, flush=True)
    return step, peak


def measure(args: argparse.Namespace) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    source, target, out = (torch.randint(4, VOCABULARY, (args.sentences, args.length), device=device) for _ in range(3))
    steps, peaks = {}, {}
    for name in [f"{build}, {way}" for way in args.how for build in args.builds]:
        try:
            steps[name], peaks[name] = prepared(name, (source, target, out))
        except Exception as error:  # noqa: BLE001 — one that fails is named, the others are measured
            print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
    taken = {name: list[float]() for name in steps}
    for _ in range(args.rounds):
        for name, step in steps.items():
            _wait(device)
            start = time.perf_counter()
            for _ in range(args.steps):
                step()
            _wait(device)
            taken[name].append((time.perf_counter() - start) / args.steps)
    print(" · ".join(f"{key} {value}" for key, value in origin(str(device)).items()), end="\n\n")
    size = (
        f"{args.sentences} sentences of {args.length} tokens per step, "
        f"{args.rounds} rounds of {args.steps} steps, median (least–most)"
    )
    first = statistics.median(taken[next(iter(steps))]) if steps else 0.0
    rows = []
    for name in steps:
        middle = statistics.median(taken[name])
        spread = f"{1e3 * middle:.1f} ({1e3 * min(taken[name]):.1f}–{1e3 * max(taken[name]):.1f})"
        speed = f"{args.sentences * args.length / middle:,.0f}"
        rows.append([name, spread, speed, f"{first / middle:.2f}", f"{peaks[name] / 1e9:.1f}"])
    head = ["build", "ms per step", "target tokens per second", "× the first", "peak GB"]
    print(f"{size}\n\n{Table(head, rows).markdown()}", end="")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    parser.add_argument(
        "--builds", metavar="A,B", default="torch-paper-dropouts,ours", help=f"some of {', '.join(BUILDS)}"
    )
    parser.add_argument("--how", metavar="A,B", default="compiled+graphs", help=f"some of {', '.join(WAYS)}")
    parser.add_argument("--sentences", metavar="N", type=int, default=512, help="sentences per step (default: 512)")
    parser.add_argument("--length", metavar="N", type=int, default=32, help="tokens per sentence (default: 32)")
    parser.add_argument("--rounds", metavar="N", type=int, default=ROUNDS, help=f"rounds in turns (default: {ROUNDS})")
    parser.add_argument("--steps", metavar="N", type=int, default=STEPS, help=f"steps per round (default: {STEPS})")
    args = parser.parse_args()
    for name, known in (("builds", tuple(BUILDS)), ("how", WAYS)):
        chosen = getattr(args, name).split(",")
        if wrong := [one for one in chosen if one not in known]:
            parser.error(f"--{name}: expected some of {', '.join(known)}, got {', '.join(wrong)}")
        setattr(args, name, chosen)
    return args


def _reserved(device: torch.device) -> int:
    """Bytes of a GPU that the builds before have taken: a recording's are not allocated, in torch's count,
    but it has them.
    """
    if device.type != "cuda":
        return 0
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    measure(arguments())
