"""What the LightningModules of all tasks share: a model and its moving average, the blocks that are computed again,
steps that are recorded, the seed of each step, and the optimizer.

Everything random in a step is drawn from the seed and the number of the batch: a step needs nothing but weights,
optimizer and number, and a run that is resumed from a checkpoint is the run that was never stopped.

Paper, if recipe.weight_decay > 0: Ilya Loshchilov, Frank Hutter (2019). Decoupled weight decay regularization. ICLR.
    arXiv:1711.05101.
Paper, if recipe.weight_decay == 0: Diederik P. Kingma, Jimmy Ba (2015). Adam: a method for stochastic optimization.
    ICLR. arXiv:1412.6980.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from foveal.errors import expect
from foveal.training.average import Average
from foveal.training.cuda_graph import GraphedLoss
from foveal.training.recipe import FULL, Recipe
from foveal.training.recompute import outermost_blocks, recompute


class TaskModule(pl.LightningModule):
    unit = "samples"  # what a run counts per second
    occasional: tuple[str, ...] = ()  # figures that are NaN after an epoch that did not measure them
    # Whether steps can be recorded as CUDA graphs: `forward` makes the loss of tensors that have few shapes, and
    # `training_step` gets it by `recorded_loss`.
    recordable = False

    def __init__(self, model: nn.Module, recipe: Recipe) -> None:
        super().__init__()
        self.model: Any = model
        self.recipe: Any = recipe
        self.average = Average(model, recipe.ema) if recipe.ema else None
        self.cuda_graphs: GraphedLoss | None = None
        if recipe.checkpointing:  # after the moving average was copied from the model
            blocks = list(self.blocks())
            expect(bool(blocks), "--checkpointing", "a model with a list of blocks", f"{recipe.model}, which has none")
            recompute(blocks)

    @property
    def evaluated(self) -> Any:
        """The model that is validated and kept: the moving average where there is one."""
        return self.model if self.average is None else self.average.module

    def amount(self, batch: Any) -> int:
        """How many units a batch holds."""
        raise NotImplementedError

    def blocks(self) -> Iterable[nn.Module]:
        """What gradient checkpointing computes again in the backward pass, each by itself."""
        return outermost_blocks(self.model)

    def obstacle(self, processes: int) -> str | None:
        """Why no step of this run can be recorded as a CUDA graph, in words; None where it can."""
        if not self.recordable:
            return "the task has no step that can be recorded"
        if processes > 1:
            return "several processes train together"
        # Computing again saves and restores the state of the generator, which a replay draws from.
        return "blocks are computed again (--checkpointing)" if self.recipe.checkpointing else None

    def records(self, device: str, processes: int) -> bool:
        """Whether the steps of this run are recorded."""
        return bool(self.recipe.cuda_graphs and device == "cuda" and self.obstacle(processes) is None)

    def record(self) -> None:
        """Once, before the first step: let steps be recorded."""
        self.cuda_graphs = GraphedLoss(self)

    def recorded_loss(self, *tensors: Tensor) -> Tensor:
        """What `forward` makes of these tensors: one launch where steps are recorded."""
        loss: Tensor = self(*tensors) if self.cuda_graphs is None else self.cuda_graphs(*tensors)
        return loss

    def on_fit_start(self) -> None:
        if self.records(self.device.type, self.trainer.world_size):
            self.record()

    def on_train_end(self) -> None:
        self.cuda_graphs = None  # it holds weights, gradients and memory of a GPU

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        torch.manual_seed(self.seed_of(self.number()))

    def number(self) -> int:
        """Of the batch in the whole run: not of the step, which several batches may share."""
        return int(self.trainer.fit_loop.epoch_loop.total_batch_idx)

    def seed_of(self, number: int) -> int:
        return int(np.random.SeedSequence([self.recipe.seed, number, self.global_rank]).generate_state(1)[0])

    def optimizer_step(self, *arguments: Any, **named: Any) -> None:
        super().optimizer_step(*arguments, **named)
        if self.average is not None:
            self.average.update(self.model, self.global_step - 1)  # the step has been counted

    def weights(self, share: Callable[[str], float]) -> dict[tuple[float, float], list[nn.Parameter]]:
        """Those that learn, by their share of the learning rate and their weight decay. share: of a weight's name; at 0
        it is frozen.
        """
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        for name, parameter in self.model.named_parameters():
            if not share(name):
                continue
            # None on biases and scales; a mixture of kernels has a bias for each, and so two axes.
            matrix = parameter.dim() > 1 and name.rpartition(".")[2] != "bias"
            groups.setdefault((share(name), self.recipe.weight_decay if matrix else 0.0), []).append(parameter)
        return groups

    def as_groups(self, weights: dict[tuple[float, float], list[nn.Parameter]]) -> list[dict[str, Any]]:
        """As AdamW takes them."""
        return [
            {"params": params, "weight_decay": decay, "lr": self.recipe.lr * share}
            for (share, decay), params in weights.items()
        ]

    def adamw(
        self, groups: list[dict[str, Any]], schedule: Callable[[int], float], lr: float, **options: Any
    ) -> dict[str, Any]:
        """AdamW with a factor on the learning rate at each step, as Lightning wants it."""
        # in mixed precision, Lightning clips no gradient of a fused one
        fused = self.device.type == "cuda" and self.recipe.precision in FULL
        optimizer = torch.optim.AdamW(groups, lr=lr, fused=fused, **options)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}
