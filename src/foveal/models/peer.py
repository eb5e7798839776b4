"""Peers: what others use, built from transformers' configs, or by files beside this one where it has none, without
their weights, to be trained by the same command on the same data.

    logits = peer(images)

Symbols: peer one of efficientnet-b0, mobilenet-v2, mobilenet-v3-s (Small), mobilenet-v4-s (Conv-Small), mobilevit-xxs,
    deit-tiny, vit-24 (DeiT, as wide and as deep as ICAM's decoder), resnet-18 and xie-2019 (for sewers).
Paper, if self.config.kind == "efficientnet-b0": Mingxing Tan, Quoc V. Le (2019). EfficientNet: rethinking model
    scaling for convolutional neural networks. ICML. arXiv:1905.11946.
Paper, if self.config.kind == "mobilenet-v2": Mark Sandler, Andrew Howard, Menglong Zhu, Andrey Zhmoginov, Liang-Chieh
    Chen (2018). MobileNetV2: inverted residuals and linear bottlenecks. CVPR. arXiv:1801.04381.
Paper, if self.config.kind == "mobilenet-v3-s": Andrew Howard, Mark Sandler, Grace Chu, Liang-Chieh Chen, Bo Chen,
    Mingxing Tan, Weijun Wang, Yukun Zhu, Ruoming Pang, Vijay Vasudevan, Quoc V. Le, Hartwig Adam (2019). Searching for
    MobileNetV3. ICCV. arXiv:1905.02244.
Paper, if self.config.kind == "mobilenet-v4-s": Danfeng Qin, Chas Leichner, Manolis Delakis, Marco Fornoni, Shixin Luo,
    Fan Yang, Weijun Wang, Colby Banbury, Chengxi Ye, Berkin Akin, Vaibhav Aggarwal, Tenghui Zhu, Daniele Moro, Andrew
    Howard (2024). MobileNetV4: universal models for the mobile ecosystem. ECCV. arXiv:2404.10518.
Paper, if self.config.kind == "mobilevit-xxs": Sachin Mehta, Mohammad Rastegari (2022). MobileViT: light-weight,
    general-purpose, and mobile-friendly vision transformer. ICLR. arXiv:2110.02178.
Paper, if self.config.kind in ("deit-tiny", "vit-24"): Hugo Touvron, Matthieu Cord, Matthijs Douze, Francisco Massa,
    Alexandre Sablayrolles, Hervé Jégou (2021). Training data-efficient image transformers & distillation through
    attention. ICML. arXiv:2012.12877.
Paper, if self.config.kind == "resnet-18": Kaiming He, Xiangyu Zhang, Shaoqing Ren, Jian Sun (2016). Deep residual
    learning for image recognition. CVPR. arXiv:1512.03385.
Paper, if self.config.kind == "xie-2019": Qian Xie, Dawei Li, Jinxuan Xu, Zhenghao Yu, Jun Wang (2019). Automatic
    detection and classification of sewer defects via hierarchical deep learning. IEEE Transactions on Automation
    Science and Engineering. doi:10.1109/TASE.2019.2900170.
Departs from the paper: none learns from ImageNet first, none distils, and all are trained by the recipe of the run.
    What transformers leaves unset is initialised as the papers do.
Cost: each its own; `foveal bench models resnet-18` measures it.
Example: Peer(PeerConfig("vit-24", classes=3, image=32))(torch.rand(2, 3, 32, 32))
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from foveal.errors import FovealError, expect, expect_integer, short_repr, unknown
from foveal.models.features import probe
from foveal.models.mbconv import he_normal
from foveal.models.mobilenet import mobilenet_v3_small, mobilenet_v4_small
from foveal.models.xie import Xie


@dataclass(frozen=True)
class PeerConfig:
    kind: str = "resnet-18"
    classes: int = 2
    image: int = 224
    family: str = field(default="peer", init=False)


# name → (transformers' config, its model, what differs from the config's defaults)
_BUILDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "efficientnet-b0": (
        "EfficientNetConfig",
        "EfficientNetForImageClassification",
        {
            "width_coefficient": 1.0,
            "depth_coefficient": 1.0,
            "image_size": 224,
            "hidden_dim": 1280,
            "dropout_rate": 0.2,
        },
    ),
    "mobilenet-v2": ("MobileNetV2Config", "MobileNetV2ForImageClassification", {}),
    "mobilevit-xxs": (
        "MobileViTConfig",
        "MobileViTForImageClassification",
        {"hidden_sizes": [64, 80, 96], "neck_hidden_sizes": [16, 16, 24, 48, 64, 80, 320], "expand_ratio": 2.0},
    ),
    "deit-tiny": (
        "ViTConfig",
        "ViTForImageClassification",
        {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768},
    ),
    "vit-24": (  # as wide and as deep as icam-31k after Φ: what a decoder of cross-attention only saves
        "ViTConfig",
        "ViTForImageClassification",
        {"hidden_size": 24, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 96},
    ),
    "resnet-18": (
        "ResNetConfig",
        "ResNetForImageClassification",
        {"layer_type": "basic", "depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512]},
    ),
}
# name → what builds it for so many classes: a module images → logits with strides, features and a layer `classifier`
_OWN: dict[str, Callable[[int], Any]] = {
    "mobilenet-v3-s": mobilenet_v3_small,
    "mobilenet-v4-s": mobilenet_v4_small,
    "xie-2019": Xie,
}
VITS = ("deit-tiny", "vit-24")
# Which of transformers' hidden states are the last of strides 4, 8, 16 and 32.
LAST = {
    "efficientnet-b0": (3, 5, 11, 16),
    "mobilenet-v2": (1, 4, 11, 15),
    "mobilevit-xxs": (1, 2, 3, 4),
    "resnet-18": (1, 2, 3, 4),
}
KIND = "images to logits"
PRESETS = {
    "efficientnet-b0": PeerConfig("efficientnet-b0"),
    "mobilenet-v2": PeerConfig("mobilenet-v2"),
    "mobilenet-v3-s": PeerConfig("mobilenet-v3-s"),  # 1,519,906 parameters
    "mobilenet-v4-s": PeerConfig("mobilenet-v4-s"),  # 2,495,586 parameters
    "mobilevit-xxs": PeerConfig("mobilevit-xxs"),
    "deit-tiny": PeerConfig("deit-tiny"),
    "vit-24": PeerConfig("vit-24"),
    "resnet-18": PeerConfig("resnet-18"),
    "xie-2019": PeerConfig("xie-2019"),  # 9,160,194 parameters
}


class Peer(nn.Module):
    """Images (B, 3, h, w), normalised → logits (B, classes)."""

    def __init__(self, config: PeerConfig) -> None:
        super().__init__()
        if config.kind not in PRESETS:
            raise unknown("peer", config.kind, PRESETS)
        expect_integer(config.classes, "Peer's classes")
        expect_integer(config.image, "Peer's image")
        expect(config.image % 32 == 0, "Peer's image", "a multiple of 32", config.image)
        self.config = config
        self.net: Any = _OWN[config.kind](config.classes) if config.kind in _OWN else _built(config)
        if config.kind not in (*VITS, "xie-2019"):
            for part in self.net.modules():
                begin_well(part)

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs that it takes."""
        return (torch.zeros(batch, 3, self.config.image, self.config.image),)

    @property
    def strides(self) -> tuple[int, ...]:
        """Of the maps of `features`."""
        if self.config.kind in _OWN:
            return self.net.strides  # type: ignore[no-any-return]
        return (self.net.config.patch_size,) if self.config.kind in VITS else (4, 8, 16, 32)

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(width for _, width in probe(self, self.features, self.config.image))

    def features(self, images: Tensor) -> list[Tensor]:
        """The last map (B, C, h, w) of each stride, of a ViT its normalised patches: see models/features.py."""
        self._check(images)
        if self.config.kind in _OWN:
            return self.net.features(images)  # type: ignore[no-any-return]
        seen = self.net.base_model(pixel_values=images, output_hidden_states=True)
        if self.config.kind not in VITS:
            return [seen.hidden_states[place] for place in LAST[self.config.kind]]
        side = self.config.image // self.net.config.patch_size
        return [seen.last_hidden_state[:, 1:].mT.unflatten(2, (side, side))]  # without the class token

    def forward(self, images: Tensor) -> Tensor:
        self._check(images)
        logits: Tensor = self.net(images) if self.config.kind in _OWN else self.net(pixel_values=images).logits
        return logits

    def _check(self, images: Tensor) -> None:
        size, kind = self.config.image, self.config.kind
        fits = isinstance(images, Tensor) and images.dim() == 4 and images.shape[1] == 3
        # A ViT has one position for each patch that it was built for; the others take any size.
        if not fits or (kind in VITS and (images.shape[2] != size or images.shape[3] != size)):
            wanted = f"(B, 3, {size}, {size})" if kind in VITS else "(B, 3, h, w)"
            raise FovealError(
                f"{kind}'s images: expected {wanted}, got "
                f"{tuple(images.shape) if isinstance(images, Tensor) else short_repr(images)}"
            )


def _built(config: PeerConfig) -> nn.Module:
    """The network of transformers', with new weights."""
    try:
        transformers = importlib.import_module("transformers")
    except ModuleNotFoundError:
        raise FovealError(
            f"{config.kind}: expected transformers to be installed, got none; pip install foveal[peers]"
        ) from None
    config_name, model, changes = _BUILDS[config.kind]
    if "image_size" in changes or config.kind in (*VITS, "mobilevit-xxs"):
        changes = changes | {"image_size": config.image}
    # Eager in training mode as others run it: transformers chooses torch's scaled_dot_product_attention by itself.
    hf_config = getattr(transformers, config_name)(num_labels=config.classes, **changes)
    net: nn.Module = getattr(transformers, model)(hf_config)
    return net


def begin_well(part: nn.Module) -> None:
    """Begin as the papers do, where transformers' port, which is meant to be given weights, does not.

    It draws the scales of EfficientNet's and MobileViT's BatchNorm near 0: nothing of the image reaches the logits,
    and no training mends it. It hands torch the 0.99 of EfficientNet's and MobileNetV2's papers, which is the old
    statistics' share there and the new batch's share here: trained so, a network is evaluated with the statistics of
    its last batch.
    """
    if isinstance(part, nn.BatchNorm2d):
        part.reset_parameters()
        part.momentum = 0.1
    elif isinstance(part, nn.Conv2d):
        he_normal(part)
