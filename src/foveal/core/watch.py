"""Watching: the weights of every attention that runs, out of any kernel, without a change to what is computed.

    α (B, H, N, M);   of each row  H(α_i) = −Σ_j α_ij log α_ij,   max_j α_ij,   Σ_j α_ij |i − j|

    with watch(model, layers="encoder.*", heads=[0, 2], rows=slice(0, 5)) as seen:
        model(x)
    seen["encoder.0.attention"].weights

The forward pass keeps its fused kernels: what is asked for is computed again, by itself, from the same q and k. The
weights are those before dropout. Models that foveal did not write are seen wherever they use torch's dot product
(`watch_foreign.py`); what ran and could not be seen is named. torch's own encoder leaves its inference shortcut
meanwhile, which writes 0 at padded tokens, so these may differ.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from foveal.core.observe import Look, observers
from foveal.core.watch_foreign import Foreign, Layers, advice
from foveal.errors import FovealError, expect, expect_integer, short_repr, unknown

if TYPE_CHECKING:
    from PIL.Image import Image

Indices = int | slice | Sequence[int] | Tensor


class Keep(Protocol):
    """What to keep of one attention: named tensors, from a way to get rows (n,) of its weights, (B, H, n, M),
    and the rows asked for.
    """

    def __call__(self, part: Callable[[Tensor], Tensor], rows: Tensor, start: int) -> Mapping[str, Tensor]: ...


@dataclass(frozen=True)
class Weights:
    """Keep the weights themselves, B·H·N·M numbers a layer."""

    device: str | torch.device | None = None  # where to keep them; None: where they are
    attached: bool = False  # whether gradients go through them, back to q and k: for a loss on the weights

    def __call__(self, part: Callable[[Tensor], Tensor], rows: Tensor, start: int) -> Mapping[str, Tensor]:
        with torch.set_grad_enabled(self.attached and torch.is_grad_enabled()):
            return {"weights": part(rows).to(device=self.device)}


@dataclass(frozen=True)
class Statistics:
    """Keep only entropy, largest weight and mean distance of each row, 3·B·H·N numbers:
    `chunk` rows of weights exist at a time.
    """

    chunk: int = 256

    def __post_init__(self) -> None:
        expect_integer(self.chunk, "Statistics' chunk", expected="at least 1 row")

    def __call__(self, part: Callable[[Tensor], Tensor], rows: Tensor, start: int) -> Mapping[str, Tensor]:
        with torch.no_grad():
            parts = [statistics(part(some), some + start) for some in torch.split(rows, self.chunk)]
        return {name: torch.cat([each[name] for each in parts], -1) for name in parts[0]}


def statistics(weights: Tensor, positions: Tensor) -> dict[str, Tensor]:
    """Entropy, largest weight and mean distance of weights (B, H, n,
    M) whose queries stand at these positions (n,): (B, H, n) each.
    """
    wide = weights.to(torch.promote_types(weights.dtype, torch.float32))
    keys = torch.arange(wide.shape[3], device=wide.device)
    apart = (positions.to(wide.device)[:, None] - keys).abs()  # (n, M)
    return {
        # 0 log 0 = 0, with slope 0: entr's own slope there is ∞, and ∞·0 would make every gradient NaN.
        "entropy": torch.special.entr(wide.masked_fill(wide == 0, 1)).sum(-1),
        "largest": wide.amax(-1) if len(keys) else wide.sum(-1),
        "distance": (wide * apart).sum(-1),
    }


@dataclass(frozen=True, eq=False)
class Record:
    """One attention that ran, and what was kept of it."""

    name: str  # of the layer; its second call is name#2
    module: str  # the class of the layer; "" for a function called outside of any
    kernel: str
    shape: tuple[int, int, int, int]  # (B, H, N, M) of the whole attention
    start: int  # the position of its first query: how many tokens a cache held before
    heads: Tensor = field(repr=False)  # the heads kept, (h,)
    rows: Tensor = field(repr=False)  # the queries kept, (n,)
    kept: Mapping[str, Tensor] = field(repr=False)

    @property
    def weights(self) -> Tensor:
        """α of the heads and rows kept: (B, h, n, M)."""
        if "weights" not in self.kept:
            raise FovealError(
                f"layer {self.name!r}: expected its weights, got only {', '.join(self.kept)}; watch with keep=Weights()"
            )
        return self.kept["weights"]

    @property
    def entropy(self) -> Tensor:
        """−Σ_j α_ij log α_ij: (B, h, n)."""
        return self._statistic("entropy")

    @property
    def largest(self) -> Tensor:
        """max_j α_ij: (B, h, n)."""
        return self._statistic("largest")

    @property
    def distance(self) -> Tensor:
        """Σ_j α_ij |i − j|: (B, h, n). It means something where the keys stand in the order of the queries."""
        return self._statistic("distance")

    def picture(
        self,
        row_labels: Sequence[object] = (),
        column_labels: Sequence[object] = (),
        *,
        sample: int = 0,
        head: int | None = None,
    ) -> "Image":
        """α of one sample as an image (Pillow): the mean over the heads, or one of those kept.

        Its largest weight is the darkest.

        Labels are words for the rows (the queries kept) and the columns (the keys), such as tokens.
        """
        from foveal.core.notebook import picture

        weights = self.weights.detach().float()
        for what, index, size in (
            ("sample", sample, weights.shape[0]),
            ("head", 0 if head is None else head, weights.shape[1]),
        ):
            expect_integer(index, f"the picture's {what}", 0)
            expect(index < size, f"the picture's {what}", f"below {size}", index)
        chosen = weights[sample].mean(0) if head is None else weights[sample, head]  # (n, M)
        darkest = float(chosen.max()) if chosen.numel() else 0.0
        return picture(chosen / darkest if darkest > 0 else chosen, row_labels, column_labels)

    def _repr_png_(self) -> bytes | None:
        from foveal.core.notebook import png

        return png(self.picture()) if "weights" in self.kept and self.kept["weights"].shape[0] else None

    def _statistic(self, name: str) -> Tensor:
        return self.kept[name] if name in self.kept else statistics(self.weights, self.rows + self.start)[name]


class Seen(dict[str, Record]):
    """The attentions that ran, by the name of their layer, in the order of the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.unseen: list[str] = []  # attention layers that ran and hid their weights; known when the watch ends

    def __missing__(self, name: str) -> Record:
        names = f"the name of a layer, {' or '.join(map(repr, self)) or 'of which none was seen'}"
        expect(isinstance(name, str), "what was seen", names, short_repr(name))
        raise unknown("layer", name, self)

    def __repr__(self) -> str:
        return "\n".join(f"{name}  {record.shape}  {record.kernel}" for name, record in self.items()) or "nothing seen"


_WEIGHTS = Weights()


@contextmanager
def watch(
    model: nn.Module | None = None,
    *,
    layers: str | Sequence[str] | None = None,
    heads: Indices | None = None,
    rows: Indices | None = None,
    keep: Keep = _WEIGHTS,
) -> Iterator[Seen]:
    """Record the attentions that `model` runs inside the `with`; without a model, every attention that runs there.

    layers: names or patterns ("encoder.*"); heads and rows (of queries): indices or a slice. All of them unless given.
    keep: `Weights()`, or `Statistics()` where N × M numbers are too many.
    """
    expect(model is None or isinstance(model, nn.Module), "watch", "a model (torch.nn.Module)", type(model).__name__)
    patterns = [layers] if isinstance(layers, str) else layers
    named = patterns is None or (
        isinstance(patterns, Collection) and len(patterns) > 0 and all(isinstance(name, str) for name in patterns)
    )
    expect(
        named, "watch's layers", "names or patterns, at least one", short_repr(layers), "leave it out for all layers"
    )
    expect(callable(keep) and not isinstance(keep, type), "watch's keep", "Weights() or Statistics()", short_repr(keep))
    watcher = _Watcher(model, patterns, heads, rows, keep)
    with ExitStack() as stack:
        # a compiled graph would run past everything below
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(Foreign(watcher.see, watcher.miss))
        watcher.tree.hook(stack)
        observers.append(watcher.see)
        stack.callback(observers.remove, watcher.see)
        yield watcher.seen
    watcher.finish()


class _Watcher:
    """Gives each attention the name of the layer that runs, and keeps what was asked for."""

    def __init__(
        self,
        model: nn.Module | None,
        layers: Sequence[str] | None,
        heads: Indices | None,
        rows: Indices | None,
        keep: Keep,
    ) -> None:
        self.layers, self.heads, self.rows, self.keep = layers, heads, rows, keep
        self.tree = Layers(model)
        self.seen = Seen()
        self.calls: Counter[str] = Counter()  # attentions, by the path of their layer or the name of the function
        self.names: list[str] = []  # of all attentions, asked for or not
        self.missed: list[str] = []  # the paths of those that could not be read
        self.outside = False  # whether an attention ran that is not the model's

    def see(self, look: Look, function: str = "attend") -> None:
        """Take one attention down, if it was asked for."""
        if not self.tree.here:
            return
        if self.tree.modules and not self.tree.running:
            self.outside = True
            return
        place = self.tree.running[-1] if self.tree.running else function
        self.calls[place] += 1
        layer, module = (self.tree.name(place), self.tree.kind(place)) if self.tree.running else (place, "")
        name = layer if self.calls[place] == 1 else f"{layer}#{self.calls[place]}"
        self.names.append(name)
        if not self._asked(layer, name):
            return
        heads = _chosen(self.heads, look.heads, f"heads of layer {name!r}")
        rows = _chosen(self.rows, look.queries, f"rows of layer {name!r}")

        def part(some: Tensor) -> Tensor:
            weights = look.rows(some)
            return weights if self.heads is None else weights[:, heads.to(weights.device)]

        shape = look.batch, look.heads, look.queries, look.keys
        with _full_precision():
            kept = self.keep(part, rows, look.start)
        self.seen[name] = Record(name, module, look.kernel, shape, look.start, heads, rows, kept)

    def miss(self) -> None:
        if self.tree.here and self.tree.running:
            self.missed.append(self.tree.running[-1])

    def finish(self) -> None:
        """Say what could not be had: nothing comes back silently empty."""
        paths = dict.fromkeys([*self.tree.unseen(self.calls), *self.missed])
        hidden = {self.tree.name(path): advice(self.tree.modules[path]) for path in paths}
        if not self.calls:
            raise FovealError(f"watch saw nothing: {_hiding(hidden) if hidden else self._idle()}")
        hidden = {name: todo for name, todo in hidden.items() if self._asked(name)}
        self.seen.unseen = list(hidden)
        for pattern in self.layers or ():
            if not any(fnmatchcase(name, pattern) for name in self.seen):
                of_it = {name: todo for name, todo in hidden.items() if fnmatchcase(name, pattern)}
                raise (
                    FovealError(f"watch saw nothing of {pattern!r}: {_hiding(of_it)}")
                    if of_it
                    else unknown("layer", pattern, self.names)
                )
        if hidden:
            warnings.warn(f"watch saw only a part: {_hiding(hidden)}", stacklevel=4)  # the line of the `with`

    def _idle(self) -> str:
        if not self.tree.modules:
            return "no attention ran inside the with; call it there"
        if not self.tree.ran:
            return "the model was not run inside the with; call it there" + " (another attention ran)" * self.outside
        return f"no attention ran in {self.tree.name('')}"

    def _asked(self, *names: str) -> bool:
        return self.layers is None or any(fnmatchcase(name, pattern) for name in names for pattern in self.layers)


def _hiding(hidden: Mapping[str, str]) -> str:
    return f"{', '.join(hidden)} ran, but not in a way that shows weights; {'; '.join(dict.fromkeys(hidden.values()))}"


def _chosen(asked: Indices | None, size: int, what: str) -> Tensor:
    """The indices asked for, of `size`, as numbers from 0."""
    try:
        if asked is None or isinstance(asked, slice):
            indices = list(range(size)[asked or slice(None)])
            expect(bool(indices) or asked is None, what, f"some of {size}", short_repr(asked))
            return torch.tensor(indices, dtype=torch.long, device="cpu")
        found = torch.as_tensor(asked, device="cpu").reshape(-1)
    except FovealError:
        raise
    except (TypeError, ValueError, RuntimeError):  # a string, a ragged list, a slice of strings
        raise FovealError(f"{what}: expected indices below {size} or a slice, got {short_repr(asked)}") from None
    counts = not (found.is_floating_point() or found.is_complex() or found.dtype == torch.bool) and len(found) > 0
    expect(counts and bool(((-size <= found) & (found < size)).all()), what, f"indices below {size}", short_repr(asked))
    return found.long() % size


@contextmanager
def _full_precision() -> Iterator[None]:
    """Autocast off, which would round the scores to 16 bits."""
    accelerator = torch.accelerator.current_accelerator()
    with ExitStack() as stack:
        for device in {"cpu", accelerator.type if accelerator else "cpu"}:
            stack.enter_context(torch.autocast(device, enabled=False))
        yield
