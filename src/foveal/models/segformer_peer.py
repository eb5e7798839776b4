"""SegFormer as others use it: built from transformers' config without its weights, to be trained by the same command on
the same data.

    m_4, m_8, m_16, m_32 = Mix Transformer(image);   logits = W δ(BN(W_f [W_32 m_32↑; W_16 m_16↑; W_8 m_8↑; W_4 m_4]))

Symbols: m_s the map of stride s; ↑ to the grid of m_4, bilinear; δ ReLU. segformer-b0 is the smallest of the paper.
Paper: Enze Xie, Wenhai Wang, Zhiding Yu, Anima Anandkumar, Jose M. Alvarez, Ping Luo (2021). SegFormer: simple and
    efficient design for semantic segmentation with transformers. NeurIPS. arXiv:2105.15203.
Departs from the paper: it does not learn from ImageNet first, and it is trained by the recipe of the run. Convolutions
    begin as in the paper's code; transformers, whose port is meant to be given weights, draws them near 0.
Cost: its own; `foveal bench models segformer-b0` measures it.
Example: SegformerPeer(SegformerPeerConfig(classes=3, image=64))(torch.rand(2, 3, 64, 64))
"""

import importlib
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from foveal.errors import FovealError, expect, expect_integer, unknown
from foveal.models.image_model import check_images
from foveal.models.mbconv import he_normal


@dataclass(frozen=True)
class SegformerPeerConfig:
    kind: str = "segformer-b0"
    classes: int = 2  # with the background, which is the first
    image: int = 512  # side in pixels that it is made for; it takes any other, too
    family: str = field(default="segformer_peer", init=False)


# name → what differs from the defaults of transformers' SegformerConfig
_BUILDS: dict[str, dict[str, Any]] = {"segformer-b0": {}}
KIND = "images to maps"
PRESETS = {"segformer-b0": SegformerPeerConfig()}  # 3.7 million parameters


class SegformerPeer(nn.Module):
    """Images (B, 3, h, w), normalised → logits (B, classes, h/4, w/4)."""

    strides = (4, 8, 16, 32)  # of the maps that `features` gives
    stride, multiple = 4, 32

    def __init__(self, config: SegformerPeerConfig) -> None:
        super().__init__()
        if config.kind not in _BUILDS:
            raise unknown("peer", config.kind, _BUILDS)
        expect_integer(config.classes, "SegformerPeer's classes")
        expect_integer(config.image, "SegformerPeer's image")
        expect(config.image % 32 == 0, "SegformerPeer's image", "a multiple of 32", config.image)
        self.config = config
        try:
            transformers = importlib.import_module("transformers")
        except ModuleNotFoundError:
            raise FovealError(
                f"{config.kind}: expected transformers to be installed, got none; pip install foveal[peers]"
            ) from None
        hf_config = transformers.SegformerConfig(num_labels=config.classes, **_BUILDS[config.kind])
        self.net = transformers.SegformerForSemanticSegmentation(hf_config)
        for part in self.net.modules():
            if isinstance(part, nn.Conv2d):
                he_normal(part)
        nn.init.normal_(self.net.decode_head.classifier.weight, std=0.01)

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs that it takes."""
        return (torch.zeros(batch, 3, self.config.image, self.config.image),)

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(self.net.config.hidden_sizes)

    def features(self, images: Tensor) -> list[Tensor]:
        """The map (B, C, h, w) of each stage: see models/features.py."""
        self._check(images)
        return list(self.net.segformer(images, output_hidden_states=True).hidden_states)

    def forward(self, images: Tensor) -> Tensor:
        self._check(images)
        logits: Tensor = self.net(pixel_values=images).logits
        return logits

    def _check(self, images: Tensor) -> None:
        check_images(self, images, self.multiple, self.net.decode_head.classifier.weight)
