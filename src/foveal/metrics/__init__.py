"""What a result is worth, in numpy, with intervals."""

from foveal.lazy import door_of_modules

__getattr__, __dir__ = door_of_modules(__name__)
