"""Mathematics: pure functions of tensors.

The weighted sum softmax(scores)·V is written in `attend` and nowhere else.
"""

from foveal.lazy import door_of_modules

__getattr__, __dir__ = door_of_modules(__name__)
