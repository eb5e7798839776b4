# Written by `make stubs`.
from foveal.explain import check as check
from foveal.explain import diagnosis as diagnosis
from foveal.explain import faithfulness as faithfulness
from foveal.explain import heads as heads
from foveal.explain import saliency as saliency

__all__ = [
    "check",
    "diagnosis",
    "faithfulness",
    "heads",
    "saliency",
]
