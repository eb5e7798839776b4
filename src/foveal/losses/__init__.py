"""What training minimises, as functions of tensors."""

from foveal.lazy import door_of_modules

__getattr__, __dir__ = door_of_modules(__name__)
