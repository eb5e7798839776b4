"""Xie et al.'s network for sewers: three convolutions and three fully connected layers.

    x = pool(relu(conv_11(image)));   x = pool(relu(conv_3(x))), twice, each of stride 2
    logits = W_3 relu(W_2 relu(W_1 mean_8×8(x)))

Symbols: pool the largest of 2 × 2; mean_8×8 the means of 8 × 8 cells, which overlap where 8 does not divide the map,
    and which are the map itself for images of 256 × 256.
Paper: Qian Xie, Dawei Li, Jinxuan Xu, Zhenghao Yu, Jun Wang (2019). Automatic detection and classification of sewer
    defects via hierarchical deep learning. IEEE Transactions on Automation Science and Engineering.
    doi:10.1109/TASE.2019.2900170.
Paper: Joakim Bruslund Haurum, Thomas B. Moeslund (2021). Sewer-ML: a multi-label sewer defect classification dataset
    and benchmark. CVPR. arXiv:2103.10895.
Departs from the paper: one network answers, where the paper has one for defect or none, and another for which. Sizes
    are those that Sewer-ML's benchmark gives it, dropout 0.6 included. Weights begin as He et al. draw them: there is
    no BatchNorm to make up for smaller ones.
"""

from torch import Tensor, nn
from torch.nn import functional as F

SIDE = 8  # cells of the map that the fully connected layers read, each way


class Xie(nn.Module):
    """Images (B, 3, h, w), normalised → logits (B, classes)."""

    strides = (4, 8, 16, 32)  # of the maps of `features`

    def __init__(self, classes: int, dropout: float = 0.6) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 64, 11, padding=5)
        self.second = nn.Conv2d(64, 128, 3, 2, padding=1)
        self.third = nn.Conv2d(128, 128, 3, 2, padding=1)
        self.hidden = nn.Sequential(
            nn.Linear(128 * SIDE**2, 1024), nn.ReLU(), nn.Dropout(dropout), nn.Linear(1024, 512), nn.ReLU()
        )
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(512, classes)
        for part in self.modules():
            if isinstance(part, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
                assert part.bias is not None
                nn.init.zeros_(part.bias)

    def features(self, images: Tensor) -> list[Tensor]:
        """The last map (B, C, h, w) of each stride."""
        x = F.max_pool2d(self.first(images).relu(), 2)
        fourth = self.second(x).relu()
        eighth = F.max_pool2d(fourth, 2)
        sixteenth = self.third(eighth).relu()
        return [fourth, eighth, sixteenth, F.max_pool2d(sixteenth, 2)]

    def forward(self, images: Tensor) -> Tensor:
        cells = F.adaptive_avg_pool2d(self.features(images)[-1], SIDE)
        logits: Tensor = self.classifier(self.dropout(self.hidden(cells.flatten(1))))
        return logits
