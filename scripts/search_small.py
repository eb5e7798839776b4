"""search_small.py SEARCH.yaml: train many recipes for one small data set in one process, and compare what they test.

    base: {data: tiles/index.csv, label: class, model: icam-lite, init_from: imagenet, …}   fields of a recipe
    seeds: [0, 1]
    folds: 5                                                                  none: the data's own splits
    variants:
      teacher: {model: efficientnet-lite0, config: {pooled: true}, epochs: 40}
      labels: {}
      taught: {taught_by: [teacher], epochs: 200, cutmix: 1}

A variant that is `taught_by` others learns the mean of what those of all seeds answer, of its fold. Loss, augmentation
and models are those of `foveal train classify`; what differs is named here: on a GPU the whole step is one CUDA graph,
with two steps more than the recipe's before it is recorded, a few images are left out of each epoch so that all batches
are full, nothing is validated, and nothing is kept. A recipe that wins here is trained by the command.
"""

import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor, nn

from foveal.data.batches import Batch
from foveal.data.pack import pack
from foveal.data.source import Source
from foveal.device import choose
from foveal.errors import expect
from foveal.models.store import normalisation
from foveal.tasks.classify.data import divided
from foveal.tasks.classify.module import ClassifyModule
from foveal.tasks.classify.reading import read_for
from foveal.tasks.classify.recipe import ClassifyRecipe
from foveal.tasks.classify.teachers import Teachers
from foveal.tasks.classify.training import build
from foveal.training.cuda_graph import CudaGraph
from foveal.training.schedule import cosine

TEACHERS = "taught_by"


@dataclass
class Search:
    """One data set, its images on the device by their size, and the models that were trained."""

    source: Source
    device: torch.device
    images: dict[int, Tensor] = field(default_factory=dict)
    trained: dict[tuple[str, int, int | None], nn.Module] = field(default_factory=dict)

    def train(self, name: str, recipe: ClassifyRecipe, taught_by: list[str]) -> tuple[Tensor, Tensor, ClassifyModule]:
        """Logits and labels of the images that test, and the module, which scores them."""
        torch.manual_seed(recipe.seed)
        splits = divided(self.source, recipe.fold)
        if recipe.size not in self.images:
            self.images[recipe.size] = torch.from_numpy(pack(self.source, recipe.size).pixels).to(self.device)
        model = build(recipe, len(self.source.classes)).to(self.device)
        mean, std = normalisation(model)
        batch = min(recipe.batch, len(splits.train))
        steps = len(splits.train) // batch * recipe.epochs
        module = Quiet(
            model,
            recipe,
            classes=len(self.source.classes),
            multi_label=self.source.multi_label,
            steps=steps,
            counts=self.source.counts(splits.train),
            images=len(splits.train),
            mean=mean,
            std=std,
            teachers=self.teachers(taught_by, recipe),
        ).to(self.device)
        module.resident = self.images[recipe.size]
        labels = torch.from_numpy(self.source.labels).to(self.device)
        labels = labels.float() if self.source.multi_label else labels.long()
        self.fit(module, torch.from_numpy(splits.train).to(self.device), labels, batch, steps)
        self.trained[name, recipe.seed, recipe.fold] = model.eval()
        tested = torch.from_numpy(splits.test).to(self.device)
        with torch.no_grad():
            logits = [module.logits(batch_of(part, labels)) for part in tested.split(64)]
        return torch.cat(logits), labels[tested], module

    def teachers(self, names: list[str], recipe: ClassifyRecipe) -> Teachers | None:
        models = [model for (name, _, fold), model in self.trained.items() if name in names and fold == recipe.fold]
        return Teachers(models, self.source.multi_label) if models else None

    def fit(self, module: ClassifyModule, train: Tensor, labels: Tensor, batch: int, steps: int) -> None:
        recipe = module.recipe
        on_gpu = self.device.type == "cuda"
        groups = module.groups()
        for group in groups:
            group["most"], group["lr"] = group["lr"], torch.tensor(group["lr"], device=self.device)
        optimizer = torch.optim.AdamW(groups, capturable=on_gpu, foreach=on_gpu)
        index = train[:batch].clone()

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            module.training_step(batch_of(index, labels), 0).backward()
            if recipe.clip:
                nn.utils.clip_grad_norm_(module.model.parameters(), recipe.clip)
            optimizer.step()

        module.train()
        recorded = CudaGraph(step).replay if on_gpu else step
        warmup = round(recipe.warmup * steps)
        for number in range(steps):
            place = number % (len(train) // batch)
            if place == 0:
                order = train[torch.randperm(len(train), device=self.device)]
            index.copy_(order[place * batch : (place + 1) * batch])
            for group in optimizer.param_groups:
                group["lr"].fill_(group["most"] * cosine(number, steps, warmup))
            recorded()
            if module.average is not None:
                module.average.update(module.model, number)
        module.eval()


class Quiet(ClassifyModule):
    """Without a trainer there is nobody to log to."""

    def log(self, *_: Any, **__: Any) -> None:
        pass


def batch_of(index: Tensor, labels: Tensor) -> Batch:
    return Batch(index, labels[index], index, torch.ones_like(index, dtype=torch.bool))


def main(path: str) -> None:
    search = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    base, seeds, variants = search["base"], search.get("seeds", [0]), search["variants"]
    for place, (name, changes) in enumerate(variants.items()):
        unknown = set(changes.get(TEACHERS, [])) - set(list(variants)[:place])
        expect(not unknown, f"{TEACHERS} of {name}", "names of variants before it", ", ".join(sorted(unknown)))
    folds = range(search["folds"]) if "folds" in search else [None]
    first = ClassifyRecipe(**base)
    state = Search(read_for(first), choose("auto"))
    began = time.monotonic()
    for name, changes in variants.items():
        scores: dict[str, list[float]] = defaultdict(list)
        for seed in seeds:
            logits, labels = [], []
            for fold in folds:
                fields = {key: value for key, value in changes.items() if key != TEACHERS}
                recipe = first.changed(**fields, seed=seed, fold=fold)
                said, truth, module = state.train(name, recipe, changes.get(TEACHERS, []))
                scores["each"].append(100 * module.score(said, truth))
                logits.append(said)
                labels.append(truth)
            scores["together"].append(100 * module.score(torch.cat(logits), torch.cat(labels)))
        weights = sum(weight.numel() for weight in module.model.parameters())
        each = " ".join(f"{score:.1f}" for score in scores["each"])
        together = " ".join(f"{score:.1f}" for score in scores["together"])
        mean = np.mean(scores["together"])
        line = f"{name}: {mean:.1f} (seeds {together}; runs {each}), {weights:,} weights"
        print(f"{time.monotonic() - began:5.0f} s  {line}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
