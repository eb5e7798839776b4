"""A model in torch as a search asks it: see decode/engine.py.

Vocabulary-wide work stays on the device; a few numbers per row come back.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from foveal.runtime.decode.engine import Bans, Next, Rows, never_generated, padded


class TorchEngine:
    def __init__(self, model: Any) -> None:
        """model: a Transformer or a Seq2Seq, in evaluation mode."""
        self.model, self.config = model, model.config
        self.first, self.end = int(self.config.begin), int(self.config.end)
        self.device = next(model.parameters()).device
        self.never = self._tensor(never_generated(self.config.pad, self.first, self.end))
        self.state: Any = None

    @torch.inference_mode()
    def begin(self, sources: Sequence[Sequence[int]], beams: int, limit: int) -> None:
        tokens, _ = padded(sources, self.config.pad, self.end)
        self.state = self.model.begin_state(self.model.encode(self._tensor(tokens)), beams, limit)

    @torch.inference_mode()
    def step(self, tokens: Rows, top_k: int, bans: Bans | None) -> Next:
        logits = self.model.step(self._tensor(tokens), self.state).float()
        total = logits.logsumexp(1, keepdim=True)  # of the few that are chosen, not of all, is log-probability made
        ends = (logits[:, self.end] - total[:, 0]).double()
        logits.index_fill_(1, self.never, -torch.inf)
        if bans is not None:
            rows, banned = self._tensor(bans.rows), self._tensor(bans.tokens)
            logits.index_put_((rows, banned), torch.tensor(-torch.inf, device=self.device))
        best, chosen = logits.topk(min(top_k, logits.shape[1]), 1)
        return Next((best - total).double().cpu().numpy(), chosen.cpu().numpy(), ends.cpu().numpy())

    @torch.inference_mode()
    def reorder(self, parents: Rows) -> None:
        if (parents != np.arange(len(parents))).any():
            self.state.reorder(self._tensor(parents))

    @torch.inference_mode()
    def keep(self, sources: Rows) -> None:
        self.state.keep(self._tensor(sources))

    def _tensor(self, numbers: Rows) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(numbers)).to(self.device)
