"""The moving average of a model's weights, which is steadier than the weights themselves.

    w̄ ← w̄ + (1 − d_t)(w − w̄),   d_t = min(d, (1 + t)/(10 + t))

Symbols: d the decay; t the number of the step. The decay rises from 0.1, or the first weights, which know nothing,
    would count for hundreds of steps.
Paper, if recipe.ema > 0: Boris T. Polyak, Anatoli B. Juditsky (1992). Acceleration of stochastic approximation by
    averaging. SIAM Journal on Control and Optimization 30(4).
Departs from the paper: an exponential average in place of the mean of all, as everybody's training has it. BatchNorm's
    statistics are averaged, too.

Why not Lightning's WeightAveraging, or torch's AveragedModel under it: a decay that rises needs a function of each
tensor there, and counters and statistics go with it one by one. For icam-31k on one thread, in turns (median of 250
updates), ours takes 0.10 × the time of AveragedModel with such a function and buffers, and 0.31 × of its multi_avg_fn
form, which averages no buffers.
"""

import copy

import torch
from torch import nn


class Average(nn.Module):
    """A copy of a model that follows it."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__()
        self.decay, self.module = decay, copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """After step t, from 0 on.

        Nothing is asked of the device, so a GPU need not end its step before the next is prepared.
        """
        decay = min(self.decay, (1 + step) / (10 + step))
        mine, theirs = self.module.state_dict(), model.state_dict()
        floats = [name for name, tensor in mine.items() if tensor.is_floating_point()]
        torch._foreach_lerp_([mine[name] for name in floats], [theirs[name] for name in floats], 1 - decay)
        for name in mine.keys() - set(floats):  # counters
            mine[name].copy_(theirs[name])
