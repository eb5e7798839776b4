"""search_small.py SEARCH.yaml: train many recipes for one small data set in one process, and compare them on its
validation split.

    base: {data: tiles/index.csv, label: class, model: icam-lite, init_from: imagenet, …}   fields of a recipe
    seeds: [0, 1]
    folds: 5                                                                  none: the data's own splits
    split: val                                                                what is scored; test chooses no recipe
    variants:
      teacher: {model: efficientnet-lite0, config: {pooled: true}, epochs: 40}
      labels: {}
      taught: {taught_by: [teacher], epochs: 200, cutmix: 1}

A variant that is `taught_by` others learns the mean of what those of all seeds answer, of its fold (the recipe `small`
has --num-teachers of each seed). Loss, augmentation and models are those of `foveal train classify`; what differs is
named here: on a GPU the whole step is one CUDA graph, with two steps more than the recipe's before it is recorded, a
few images are left out of each epoch so that all batches are full, all of an epoch's views are drawn at once, before
the first step, no epoch is validated, and nothing is kept. What else of a recipe the search cannot do is refused
(UNUSED). A recipe that wins here is trained, and tested, by the command.
"""

import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from foveal.data.batches import Batch
from foveal.data.source import Source
from foveal.device import choose
from foveal.errors import FovealError, counted, expect, expect_integer, expect_plain_file, short_repr, unknown
from foveal.models.store import normalisation
from foveal.options import load_yaml, make
from foveal.tasks.classify.data import ClassifyData
from foveal.tasks.classify.hints import Hinted, hints_of
from foveal.tasks.classify.module import ClassifyModule
from foveal.tasks.classify.reading import read_for
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.classify.teachers import Teachers, View
from foveal.tasks.classify.training import build
from foveal.training.cuda_graph import CudaGraph
from foveal.training.recipe import FULL
from foveal.training.schedule import cosine
from foveal.training.surroundings import matmul_precision

TEACHERS = "taught_by"
SCORED = ("val", "test")
# What a search does not do: these stay as they are by default.
UNUSED = (
    "num_teachers",
    "teacher_recipe",
    "teachers",
    "accumulate",
    "average",
    "checkpointing",
    "patience",
    "blank",
)
OF_ALL = {"seed": "seeds", "fold": "folds"}  # chosen for all variants at once, by other names
OF_BASE = ("data", "label", "fold_column")  # what is read once


@dataclass(frozen=True)
class Variant:
    recipe: ClassifyRecipe
    taught_by: list[str]


@dataclass(frozen=True)
class Plan:
    """What a search trains, by name: each variant with each seed on each fold."""

    base: ClassifyRecipe
    variants: dict[str, Variant]
    seeds: list[int]
    folds: list[int | None]
    split: str


@dataclass(frozen=True, eq=False)
class Trained:
    """A model as it was scored, and the images that it takes."""

    model: nn.Module
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass
class Search:
    """One data set, its images on the device by their size, and the models that were trained."""

    source: Source
    device: torch.device
    split: str = "val"  # that is scored
    images: dict[int, Tensor] = field(default_factory=dict)
    trained: dict[tuple[str, int, int | None], Trained] = field(default_factory=dict)

    def train(self, name: str, recipe: ClassifyRecipe, taught_by: list[str]) -> tuple[Tensor, Tensor, ClassifyModule]:
        """Logits and labels of the images that are scored, and the module, which does it."""
        torch.manual_seed(recipe.seed)
        data = self.data(recipe)
        train, scored = data.splits.train, getattr(data.splits, self.split)
        scored = scored[self.source.known(scored)]
        expect(len(scored) > 0, f"{self.source.name}, split {self.split}", "at least one image with a label", "none")
        model = build(recipe, len(self.source.classes)).to(self.device)
        mean, std = normalisation(model)
        batch = min(recipe.batch, len(train))
        steps = len(train) // batch * recipe.epochs
        taught = self.teachers(taught_by, recipe, mean, std)
        hints = hints_of(recipe.hints, model, recipe.size, taught)
        if isinstance(hints, Hinted):
            hints.bring(self.device)
        module = Quiet(
            model,
            recipe,
            classes=len(self.source.classes),
            multi_label=self.source.multi_label,
            steps=steps,
            counts=data.counts,
            images=len(train),
            mean=mean,
            std=std,
            teachers=taught,
            hints=hints,
        ).to(self.device)
        module.resident = self.images[recipe.size]
        labels = torch.from_numpy(self.source.labels).to(self.device)
        labels = labels.float() if self.source.multi_label else labels.long()
        with matmul_precision(recipe.precision):
            indices = torch.from_numpy(train).to(self.device)
            module.drawn = drawn_views(module, indices, labels) if recipe.views else None
            self.fit(module, indices, labels, batch, steps)
            module.drawn = None
            module.adjust()
            self.trained[name, recipe.seed, recipe.fold] = Trained(module.evaluated, recipe.size, mean, std)
            chosen = torch.from_numpy(scored).to(self.device)
            with torch.no_grad():
                logits = [module.logits(batch_of(part, labels)) for part in chosen.split(64)]
        return torch.cat(logits), labels[chosen], module

    def data(self, recipe: ClassifyRecipe) -> ClassifyData:
        """The splits, without images that cannot be read, and all images on the device."""
        data = ClassifyData(self.source, recipe)
        if data.packed is None:
            raise FovealError(f"{self.source.name}: expected images that fit into memory, got more; lower size")
        if recipe.size not in self.images:
            self.images[recipe.size] = torch.from_numpy(data.packed.pixels).to(self.device)
            if data.bad:
                print(f"left out: {counted(len(data.bad), 'image')} that cannot be read", file=sys.stderr, flush=True)
        return data

    def teachers(
        self, names: list[str], recipe: ClassifyRecipe, mean: tuple[float, ...], std: tuple[float, ...]
    ) -> Teachers | None:
        """Those of all seeds, of the pupil's fold. mean, std: what the pupil's images are normalised by."""
        found = [one for (name, _, fold), one in self.trained.items() if name in names and fold == recipe.fold]
        if not found:
            return None
        views = [View.of(recipe.size, mean, std, one.size, one.mean, one.std) for one in found]
        teachers = Teachers([one.model for one in found], self.source.multi_label, views=views)
        teachers.to(self.device, None)
        return teachers

    def fit(self, module: ClassifyModule, train: Tensor, labels: Tensor, batch: int, steps: int) -> None:
        recipe = module.recipe
        on_gpu = self.device.type == "cuda"
        groups = module.groups()
        for group in groups:
            group["most"], group["lr"] = group["lr"], torch.tensor(group["lr"], device=self.device)
        optimizer = torch.optim.AdamW(groups, capturable=on_gpu, foreach=on_gpu)
        index, module.place = train[:batch].clone(), torch.arange(batch, device=self.device)

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            module.training_step(batch_of(index, labels), 0).backward()
            if recipe.clip:
                nn.utils.clip_grad_norm_(module.model.parameters(), recipe.clip)
            optimizer.step()

        module.train()
        recorded = CudaGraph(step).replay if on_gpu and recipe.cuda_graphs else step
        warmup = round(recipe.warmup * steps)
        for number in range(steps):
            epoch, part = divmod(number, len(train) // batch)
            if part == 0:
                order = torch.randperm(len(train), device=self.device)
            chosen = order[part * batch : (part + 1) * batch]
            index.copy_(train[chosen])
            module.place.copy_(chosen + epoch % max(1, recipe.views) * len(train))
            for group in optimizer.param_groups:
                group["lr"].fill_(group["most"] * cosine(number, steps, warmup))
            recorded()
            if module.average is not None:
                module.average.update(module.model, number)
        module.eval()


@dataclass(frozen=True)
class Drawn:
    """All views of all images, and what does not learn says of them: rows in the order of views, then of images."""

    pixels: Tensor  # (R, 3, S, S), of 8 bits; without rows where nothing but the head learns
    targets: Tensor  # (R, C)
    soft: Tensor | None  # (R, C): the teachers' answers
    features: list[Tensor]  # (R, F) of each teacher: what its head sees, where hints are of that


class Quiet(ClassifyModule):
    """Without a trainer there is nobody to log to, and views that come again lie in one tensor, not in Kept."""

    drawn: Drawn | None = None
    place: Tensor  # (B,): the rows of a batch's views

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.kept.keeps = False

    def log(self, *_: Any, **__: Any) -> None:
        pass

    def augmented(self, batch: Batch) -> tuple[Tensor, Tensor]:
        if self.drawn is None:
            return super().augmented(batch)
        return self.normalised(self.input.scaled(self.drawn.pixels[self.place])), self.drawn.targets[self.place]

    def taught(self, images: Tensor) -> tuple[Tensor | None, list[Tensor]]:
        if self.drawn is None:
            return super().taught(images)
        soft = None if self.drawn.soft is None else self.drawn.soft[self.place]
        return soft, [one[self.place] for one in self.drawn.features]

    def seen(self, batch: Batch) -> tuple[Tensor, Tensor]:
        if self.drawn is None:
            return super().seen(batch)
        return self.drawn.features[0][self.place], self.drawn.targets[self.place]


@torch.no_grad()
def drawn_views(module: Quiet, train: Tensor, labels: Tensor) -> Drawn:
    """As the command draws them: each batch from a seed of its own, in 8 bits."""
    pixels, targets, soft, features = [], [], [], []
    for view in range(module.recipe.views):
        for number, part in enumerate(train.split(64)):
            batch, seed = batch_of(part, labels), module.seed_of(view * len(train) + number)
            drawn, wanted = module.views.draw(module.images(batch), batch.labels, seed)
            images = module.normalised(module.input.scaled(drawn))
            answers, seen = (None, [module.see(images)]) if module.only_head else module.taught(images)
            pixels.append(drawn[:0] if module.only_head else drawn)
            targets.append(wanted)
            soft.append(answers)
            features.append(seen)
    together = None if soft[0] is None else torch.cat([one for one in soft if one is not None])
    return Drawn(
        torch.cat(pixels), torch.cat(targets), together, [torch.cat(one) for one in zip(*features, strict=True)]
    )


def batch_of(index: Tensor, labels: Tensor) -> Batch:
    return Batch(index, labels[index], index, torch.ones_like(index, dtype=torch.bool))


def read_plan(path: Path) -> Plan:
    """An error, before anything is trained, where a name is mistyped or a recipe asks for what no search does."""
    expect_plain_file(path)
    search = expect_fields(load_yaml(path.read_text(encoding="utf-8")), str(path))
    keys = ("base", "seeds", "folds", "split", "variants")
    for key in search:
        if key not in keys:
            raise unknown(f"part of {path}", key, keys)
    seeds = search.get("seeds", [0])
    expect(isinstance(seeds, list) and bool(seeds), "seeds", "a list of them, such as [0, 1]", short_repr(seeds))
    for seed in seeds:
        expect_integer(seed, "seeds", least=0)
    if "folds" in search:
        expect_integer(search["folds"], "folds")
    folds: list[int | None] = [*range(search["folds"])] if "folds" in search else [None]
    split = str(search.get("split", "val"))
    if split not in SCORED:
        raise unknown("split", split, SCORED)
    own = expect_fields(search.get("base"), "base")
    base = make(ClassifyRecipe, "base", **own)
    variants: dict[str, Variant] = {}
    for name, content in expect_fields(search.get("variants"), "variants").items():
        what = f"the variant {name}"
        fields = expect_fields(content, what)
        taught_by = fields.pop(TEACHERS, [])
        expect(isinstance(taught_by, list), f"{TEACHERS} of {name}", "a list of names", short_repr(taught_by))
        others = [str(one) for one in taught_by if one not in variants]
        expect(not others, f"{TEACHERS} of {name}", "names of variants before it", ", ".join(others))
        for key in OF_BASE:
            expect(key not in fields, f"{key} of {what}", "none, since all are compared on the same", fields.get(key))
        recipe = make(ClassifyRecipe, what, **own | fields)
        expect_searchable(recipe, what)
        variants[name] = Variant(recipe, taught_by)
    expect(bool(variants), "variants", "at least one", "none")
    return Plan(base, variants, seeds, folds, split)


def expect_fields(content: Any, what: str) -> dict[str, Any]:
    """A mapping of a YAML file; of nothing, an empty one."""
    content = {} if content is None else content
    expect(isinstance(content, dict), what, "names and values", short_repr(content))
    return {str(key): value for key, value in content.items()}


def expect_searchable(recipe: ClassifyRecipe, what: str) -> None:
    """Raise a FovealError where a recipe asks for what only the command does."""
    plain, do = ClassifyRecipe(), "leave it out, or train by foveal train classify"
    for key in UNUSED:
        default, value = getattr(plain, key), getattr(recipe, key)
        expect(value == default, f"{key} of {what}", f"{short_repr(default)} in a search", short_repr(value), do)
    for key, instead in OF_ALL.items():
        value = getattr(recipe, key)
        expect(value == getattr(plain, key), f"{key} of {what}", f"{instead} of the whole search", short_repr(value))
    expect(recipe.precision in FULL, f"precision of {what}", f"{' or '.join(FULL)} in a search", recipe.precision, do)
    expect(recipe.balance != "sampling", f"balance of {what}", "no sampling in a search", recipe.balance, do)


def main(path: str) -> None:
    plan = read_plan(Path(path))
    state = Search(read_for(plan.base), choose("auto"), plan.split)
    began = time.monotonic()
    for name, variant in plan.variants.items():
        scores: dict[str, list[float]] = defaultdict(list)
        for seed in plan.seeds:
            logits, labels = [], []
            for fold in plan.folds:
                recipe = variant.recipe.changed(seed=seed, fold=fold)
                output, truth, module = state.train(name, recipe, variant.taught_by)
                scores["each"].append(100 * module.score(output, truth))
                logits.append(output)
                labels.append(truth)
            scores["together"].append(100 * module.score(torch.cat(logits), torch.cat(labels)))
        parameters = sum(parameter.numel() for parameter in module.model.parameters())
        each = " ".join(f"{score:.1f}" for score in scores["each"])
        together = " ".join(f"{score:.1f}" for score in scores["together"])
        mean = np.mean(scores["together"])
        line = f"{name}: {mean:.1f} (seeds {together}; runs {each}), {parameters:,} parameters"
        print(f"{time.monotonic() - began:5.0f} s  {line}", flush=True)


if __name__ == "__main__":
    try:
        expect(len(sys.argv) == 2, "search_small.py", "one file, SEARCH.yaml", counted(len(sys.argv) - 1, "argument"))
        main(sys.argv[1])
    except FovealError as error:
        sys.exit(f"error: {error}")
